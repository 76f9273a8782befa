import { sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { eventRetentionMs } from "../events/retention.ts";
import { idBound } from "../ids/ids.ts";

/**
 * Deletes deliveries and attempts that are older than 30 days, for all accounts. Deletes at most `atMost` deliveries and `atMost` attempts. Returns
 * the number of deleted rows.
 */
export async function deleteOldDeliveries(db: Db, now: number, atMost: number): Promise<number> {
  const oldest = idBound("dlv", now - eventRetentionMs);
  const attempts = await deleteInChunks(
    db,
    atMost,
    (limit) =>
      sql`DELETE FROM attempts WHERE (delivery_id, id) IN (SELECT delivery_id, id FROM attempts WHERE delivery_id < ${oldest} LIMIT ${limit})`,
  );
  // The storage of an attempt is counted for the account of its delivery, so attempts are deleted before their deliveries.
  if (attempts >= atMost) return attempts;
  const deliveries = await deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE id < ${oldest} LIMIT ${limit})`,
  );
  return attempts + deliveries;
}

/** Deletes at most `atMost` redeliveries that are older than 30 days. Returns how many were deleted. */
export const deleteOldRedeliveries = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM redeliveries WHERE (account_id, id) IN
      (SELECT redeliveries.account_id, redeliveries.id FROM json_each(${JSON.stringify(accountIds)}) AS due
        CROSS JOIN redeliveries ON redeliveries.account_id = due.value AND redeliveries.id < ${idBound("rdl", now - eventRetentionMs)} LIMIT ${limit})`,
  );
