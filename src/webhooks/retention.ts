import { sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { eventRetentionMs } from "../events/retention.ts";
import { idBound } from "../ids/ids.ts";

/**
 * Deletes deliveries that are older than 30 days, and the attempts of these deliveries, for all accounts. Deletes at most `atMost`
 * deliveries and at most `atMost` attempts. Returns the number of deleted rows.
 */
export async function deleteOldDeliveries(db: Db, now: number, atMost: number): Promise<number> {
  const oldest = idBound("dlv", now - eventRetentionMs);
  const attempts = await deleteInChunks(
    db,
    atMost,
    (limit) =>
      sql`DELETE FROM attempts WHERE (delivery_id, id) IN (SELECT delivery_id, id FROM attempts WHERE delivery_id < ${oldest} LIMIT ${limit})`,
  );
  // A trigger counts the storage of an account. When an attempt is deleted, the trigger finds the account in the attempt's delivery.
  // Attempts are therefore deleted before their deliveries.
  if (attempts >= atMost) return attempts;
  const deliveries = await deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE id < ${oldest} LIMIT ${limit})`,
  );
  return attempts + deliveries;
}

/**
 * Deletes redeliveries that are older than 30 days and that belong to the given accounts. Deletes at most `atMost` redeliveries. Returns
 * the number of deleted redeliveries.
 */
export const deleteOldRedeliveries = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM redeliveries WHERE (account_id, id) IN
      (SELECT redeliveries.account_id, redeliveries.id FROM json_each(${JSON.stringify(accountIds)}) AS due
        CROSS JOIN redeliveries ON redeliveries.account_id = due.value AND redeliveries.id < ${idBound("rdl", now - eventRetentionMs)} LIMIT ${limit})`,
  );
