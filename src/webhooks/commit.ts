import { type SQL, sql } from "drizzle-orm";
import { type Db, jsonRows, raw, type Statement } from "../db/client.ts";
import type { Event } from "./event.ts";

/** One atomic change, the events that it makes, and what it answers with. */
export interface Change<Result> {
  result: Result;
  events: readonly Event[];
  /** Run in order, in one transaction. */
  statements: Statement[];
  /** A condition on the rows as they are before the change, where the statements do nothing unless it holds. */
  when?: SQL;
  /** Deliveries that the statements themselves make, to be set off. */
  due?: readonly DueDelivery[];
}

/** A delivery that is to be attempted `delayMs` from now. */
export interface DueDelivery {
  id: string;
  delayMs: number;
}

/** Runs the statements of a change in one D1 batch and answers what each returned. The caller may join statements of its own. */
export type Commit = <Result>(change: Change<Result>) => Promise<unknown[]>;

/** Is told which deliveries are to be attempted, and when. What is lost on the way, the sweep finds. */
export type Wake = (due: readonly DueDelivery[]) => void;

/**
 * Writes a change, its events and one delivery of each to every webhook that wants it, in one D1 batch: all of it or nothing.
 * `first`: statements that go before. Answers what those of the change returned.
 */
export async function commitChange(
  db: Db,
  wake: Wake,
  { events, statements, when, due = [] }: Omit<Change<unknown>, "result">,
  first: Statement[] = [],
): Promise<unknown[]> {
  const keeping = keepEvents(db, events, when);
  const [head, ...tail] = [...first, ...keeping.inserts, ...keeping.fanOuts, ...statements];
  if (!head) return [];
  const outcomes = await db.batch([head, ...tail]);
  const before = first.length + keeping.inserts.length;
  const after = before + keeping.fanOuts.length;
  wake([...due, ...outcomes.slice(before, after).flatMap(dueOf)]);
  return outcomes.slice(after);
}

/** The commit of a caller that has nothing to join. Without `wake`, deliveries wait for the sweep. */
export const commitTo =
  (db: Db, wake: Wake = () => {}): Commit =>
  (change) =>
    commitChange(db, wake, change);

interface Delivery {
  id: string;
  status: string;
}

const dueOf = (rows: unknown): DueDelivery[] =>
  (rows as Delivery[]).filter(({ status }) => status === "pending").map(({ id }) => ({ id, delayMs: 0 }));

/**
 * The statements that keep events, and those that make their deliveries. They go before the change, whose condition they share: in
 * one transaction, what held then makes the change happen. They may be repeated: the id of a delivery follows from event and webhook.
 */
function keepEvents(db: Db, events: readonly Event[], when: SQL = sql`true`): { inserts: Statement[]; fanOuts: Statement[] } {
  const inserts = insertEvents(db, events, when);
  const ids = jsonRows(events.map(({ accountId, id }) => [accountId, id]));
  const fanOuts = ids.map((made) =>
    raw<Delivery>(
      db,
      sql`INSERT OR IGNORE INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT 'dlv_' || substr(events.id, 5, 12) || substr(events.id, -12) || substr(webhooks.id, -8), events.account_id, webhooks.id, events.id, events.type,
        iif(webhooks.state = 'active', 'pending', 'held'), 0, iif(webhooks.state = 'active', events.created_at, NULL), 0, events.created_at
      FROM json_each(${made}) AS made
      JOIN events ON events.account_id = made.value ->> 0 AND events.id = made.value ->> 1
      JOIN webhooks ON webhooks.account_id = events.account_id
      WHERE EXISTS (SELECT 1 FROM json_each(webhooks.event_types) AS wanted WHERE wanted.value IN ('*', events.type))
      RETURNING id, status`,
    ),
  );
  return { inserts, fanOuts };
}

/** The statements that keep an event for nobody yet. */
export const keepEvent = (db: Db, event: Event): Statement[] => insertEvents(db, [event], sql`true`);

/**
 * The place of the next event of an account: after the last one, and never one that was used before, though all may have been
 * deleted since, for it is at least the time of the event in microseconds.
 */
const firstPlace = sql.raw(
  "max(value ->> 4 * 1000, 1 + (SELECT coalesce(max(place), 0) FROM events AS others WHERE others.account_id = made.value ->> 0))",
);

function insertEvents(db: Db, events: readonly Event[], when: SQL): Statement[] {
  const rows = events.map((event) => [event.accountId, event.id, event.type, JSON.stringify(event.data), event.createdAt]);
  return jsonRows(rows).map((made) =>
    raw(
      db,
      sql`INSERT OR IGNORE INTO events (account_id, id, type, data, created_at, place)
      SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, key + ${firstPlace} FROM json_each(${made}) AS made WHERE ${when}`,
    ),
  );
}
