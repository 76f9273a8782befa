import { sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { eventsKeptMs } from "../events/retention.ts";
import { idBound } from "../ids/ids.ts";

/** Deletes deliveries and attempts older than 30 days, of all accounts: at most `atMost` of each. Answers how many went. */
export async function deleteOldDeliveries(db: Db, now: number, atMost: number): Promise<number> {
  const oldest = idBound("dlv", now - eventsKeptMs);
  const attempts = await deleteInChunks(
    db,
    atMost,
    (limit) =>
      sql`DELETE FROM attempts WHERE (delivery_id, id) IN (SELECT delivery_id, id FROM attempts WHERE delivery_id < ${oldest} LIMIT ${limit})`,
  );
  // An attempt is counted for the account of its delivery, so it goes first.
  if (attempts >= atMost) return attempts;
  const deliveries = await deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE id < ${oldest} LIMIT ${limit})`,
  );
  return attempts + deliveries;
}

/** Deletes redeliveries that are older than 30 days, at most `atMost`. Returns how many were deleted. */
export const deleteOldRedeliveries = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM redeliveries WHERE (account_id, id) IN
      (SELECT redeliveries.account_id, redeliveries.id FROM json_each(${JSON.stringify(accountIds)}) AS due
        CROSS JOIN redeliveries ON redeliveries.account_id = due.value AND redeliveries.id < ${idBound("rdl", now - eventsKeptMs)} LIMIT ${limit})`,
  );
