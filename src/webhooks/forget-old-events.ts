import { lt, type SQL, sql } from "drizzle-orm";
import { dayMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { redeliveries } from "../db/schema.ts";
import { idBound } from "../ids.ts";

/** How long events, deliveries and attempts are kept. */
export const eventsKeptMs = 30 * dayMs;
const atOnce = 5000;
const mostChunks = 100;

/** Deletes deliveries and attempts older than 30 days, of all accounts, in bounded chunks. */
export async function forgetOldDeliveries(db: Db, now: number): Promise<void> {
  const oldest = idBound("dlv", now - eventsKeptMs);
  await inChunks(
    db,
    sql`DELETE FROM attempts WHERE (delivery_id, id) IN (SELECT delivery_id, id FROM attempts WHERE delivery_id < ${oldest} LIMIT ${atOnce})`,
  );
  await inChunks(db, sql`DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE id < ${oldest} LIMIT ${atOnce})`);
  await db.delete(redeliveries).where(lt(redeliveries.createdAt, now - eventsKeptMs));
}

/** Deletes events of an account that are older than 30 days, in bounded chunks. */
export async function forgetOldEvents(db: Db, accountId: string, now: number): Promise<void> {
  const old = sql`SELECT id FROM events WHERE account_id = ${accountId} AND id < ${idBound("evt", now - eventsKeptMs)} LIMIT ${atOnce}`;
  await inChunks(db, sql`DELETE FROM events WHERE account_id = ${accountId} AND id IN (${old})`);
}

/** Repeats a deletion until it finds less than a whole chunk, or the hour has had its share. */
async function inChunks(db: Db, deletion: SQL): Promise<void> {
  for (let chunk = 0; chunk < mostChunks; chunk++) {
    const { meta } = await db.run(deletion);
    if (meta.changes < atOnce) return;
  }
}
