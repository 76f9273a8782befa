import { lt, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { redeliveries } from "../db/schema.ts";
import { eventsKeptMs } from "../events/retention.ts";
import { idBound } from "../ids.ts";

/** Deletes deliveries and attempts older than 30 days, of all accounts, in bounded chunks. */
export async function deleteOldDeliveries(db: Db, now: number, atMost: number): Promise<void> {
  const oldest = idBound("dlv", now - eventsKeptMs);
  await deleteInChunks(
    db,
    atMost,
    (limit) =>
      sql`DELETE FROM attempts WHERE (delivery_id, id) IN (SELECT delivery_id, id FROM attempts WHERE delivery_id < ${oldest} LIMIT ${limit})`,
  );
  await deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE id < ${oldest} LIMIT ${limit})`,
  );
  await db.delete(redeliveries).where(lt(redeliveries.createdAt, now - eventsKeptMs));
}
