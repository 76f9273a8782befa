import { type SQL, sql } from "drizzle-orm";
import { type Db, jsonRows, raw, type Statement } from "../db/client.ts";
import type { Event } from "./event.ts";

/** Returns the statements that store an event without creating deliveries. */
export const storeEventOnly = (db: Db, event: Event, requestId: string | undefined): Statement[] =>
  insertEvents(db, [event], sql`true`, requestId);

/**
 * The sequence number of an account's next event. Sequence numbers are never reused, even after all events are deleted. A sequence number
 * is never less than the time of its event in microseconds.
 */
const firstSequence = sql.raw(
  "max(value ->> 4 * 1000, 1 + (SELECT coalesce(max(sequence), 0) FROM events AS others WHERE others.account_id = made.value ->> 0))",
);

const previousOf = ({ previous }: Event): string | null => (previous ? JSON.stringify(previous) : null);

/**
 * Returns the statements that store events if the condition `when` is true. The statements are idempotent: running them twice stores each
 * event only once.
 */
export function insertEvents(db: Db, events: readonly Event[], when: SQL, requestId: string | null = null): Statement[] {
  const rows = events.map((event) => [
    event.accountId,
    event.id,
    event.type,
    JSON.stringify(event.data),
    event.createdAt,
    previousOf(event),
  ]);
  return jsonRows(rows).map((made) =>
    raw(
      db,
      sql`INSERT OR IGNORE INTO events (account_id, id, type, data, created_at, previous, sequence, request_id)
      SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, key + ${firstSequence}, ${requestId} FROM json_each(${made}) AS made WHERE ${when}`,
    ),
  );
}
