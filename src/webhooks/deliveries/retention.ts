import { sql } from "drizzle-orm";
import { redeliveries } from "../../db/areas/webhooks/tables.ts";
import type { Db } from "../../db/client.ts";
import { deleteInChunks, deleteOlder } from "../../db/delete-in-chunks.ts";
import { idBound } from "../../lib/ids.ts";
import { hourMs } from "../../lib/time/clock.ts";
import { eventRetentionMs } from "../../outbox/retention.ts";

/**
 * Deletes deliveries that are older than 30 days, and the attempts of these deliveries, for all accounts. Also deletes the
 * slots of hosts that are older than an hour. Deletes at most `atMost` rows of each kind. Returns the number of deleted rows.
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
  const slots = await deleteInChunks(
    db,
    atMost,
    (limit) =>
      sql`DELETE FROM webhook_slots WHERE (host, slot) IN (SELECT host, slot FROM webhook_slots WHERE started_at < ${now - hourMs} LIMIT ${limit})`,
  );
  return attempts + deliveries + slots;
}

/**
 * Deletes redeliveries that are older than 30 days and that belong to the given accounts. Deletes at most `atMost` redeliveries. Returns
 * the number of deleted redeliveries.
 */
export const deleteOldRedeliveries = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteOlder(db, redeliveries, { accountIds, bound: idBound("rdl", now - eventRetentionMs), atMost });
