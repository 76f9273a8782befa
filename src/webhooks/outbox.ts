import { type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { type AuditEntry, storeAudit } from "../audit/audit.ts";
import { type BatchCondition, isFailedCondition, requireInBatch } from "../db/batch-condition.ts";
import { type Db, jsonRows, raw, type Statement } from "../db/client.ts";
import { hasRoom } from "../db/database-sizes.ts";
import { Failure } from "../errors/failure.ts";
import type { Event } from "../events/event.ts";
import { insertEvents } from "../events/store-events.ts";
import {
  countDroppedEvents,
  isWithinQuota,
  isWithinReserve,
  maxStored,
  mayStore,
  overQuota,
  type Stored,
  storesAll,
} from "../storage/storage.ts";

/**
 * Whether a change goes on where the database or the account is full. By default it does not.
 * `true`: it ends, deletes or disables something, which it does once. Its events are dropped where the account's reserve is used up.
 * `"within the reserve"`: it takes something away, but could be repeated without end, so it is refused where the reserve is used up.
 * `"unrecorded"`: a session begins or ends. Its events and its audit entries are dropped where the database is full or the reserve is used up.
 */
export type EvenWhereFull = boolean | "within the reserve" | "unrecorded";

// The outbox: a change, its events and a delivery of each to every webhook that wants it are one D1 batch, all of it or nothing.

/** One atomic change, the events that it makes, and what it answers with. */
export interface Change<Result> {
  result: Result;
  events: readonly Event[];
  /** Run in order, in one transaction. */
  statements: Statement[];
  /** A condition on the rows as they are before the change, where the statements do nothing unless it holds. */
  when?: SQL;
  /** What the audit log says of it. */
  audit?: readonly AuditEntry[];
  /** On what condition the audit log says it. */
  auditWhen?: SQL;
  /** Scopes that the one who acts must still have as it is written, besides that of the operation. */
  scopes?: readonly string[];
  /** The account whose storage it adds to, where neither an event, an audit entry nor `adds` names it. */
  accountId?: string;
  /** What the statements add to what the account stores only so much of, besides events. */
  adds?: readonly { accountId: string; what: Stored }[];
  /** Bytes that the statements add, where that is more than a row or two. */
  addsBytes?: number;
  evenWhereFull?: EvenWhereFull;
  /** Deliveries that the statements themselves make, to be enqueued, from what the statements answered. */
  due?: (outcomes: readonly unknown[]) => readonly DueDelivery[];
}

/** Attempts in flight at once, of a webhook and of an account: so one account's burst delays nobody else's next delivery, and floods no receiver. */
export const maxInFlight = { ofWebhook: 10, ofAccount: 50 };

/** A delivery that is to be attempted `delayMs` from now. */
export interface DueDelivery {
  id: string;
  delayMs: number;
}

/** Runs the statements of a change in one D1 batch and answers what each returned. The caller may join statements of its own. */
export type Commit = <Result>(change: Change<Result>) => Promise<unknown[]>;

/** Is given the deliveries that are to be attempted, and when. What is lost on the way, the sweep finds. */
export type EnqueueDeliveries = (due: readonly DueDelivery[]) => void;

/** What must hold in D1 of the one who acts, at the moment in which a change is written. `scopes`: what it takes besides the operation's own. */
export interface Authority {
  holds(scopes: readonly string[]): SQL;
  /** Why it does not. */
  refusal(scopes: readonly string[]): Promise<Failure>;
}

/** What a verb that writes takes besides its input. */
export interface WriteContext extends ReadContext {
  commit: Commit;
}

/** Where changes are written. Without `enqueue`, deliveries wait for the sweep; without `authority`, nobody has to be allowed it. */
export interface Outbox {
  db: Db;
  enqueue?: EnqueueDeliveries;
  authority?: Authority;
  /** The request that changes are made for. */
  requestId?: string;
}

const authorityHolds = "the one who acts still may";
const databaseHasRoom = "the database has room";
const accountHasRoom = "the account is within its quota";
const accountHasReserve = "the account is within its reserve";
const mayStoreMore = (what: Stored) => `the account may store more ${what}`;

/**
 * Writes a change, its events and one delivery of each to every webhook that wants it, in one D1 batch. `first`: statements that go
 * before. Returns what those of the change returned. Throws the refusal of `authority` where it no longer holds; nothing is written then.
 */
export async function commitChange(outbox: Outbox, change: AnyChange, first: Statement[] = []): Promise<unknown[]> {
  const { db, enqueue = () => {}, requestId } = outbox;
  const { events, statements, when = sql`true`, audit = [], auditWhen = sql`true`, due = () => [] } = change;
  const { ofEvents, ofAudit } = recordingOf(change);
  const { inserts, fanOuts } = storeEvents(db, events, ofEvents === null ? when : sql`${when} AND ${ofEvents}`, requestId);
  const [event] = events;
  const dropped =
    ofEvents === null || !event ? [] : [countDroppedEvents(db, event.accountId, events.length, sql`${when} AND NOT (${ofEvents})`)];
  const required = conditionsOf(outbox, change);
  const conditions = required.length > 0 ? [requireInBatch(db, ...required)] : [];
  const entries = storeAudit(db, audit, sql`${when} AND ${auditWhen} AND ${ofAudit ?? sql`true`}`);
  const before = [...conditions, ...first, ...entries, ...dropped, ...inserts];
  const [head, ...tail] = [...before, ...fanOuts, ...statements];
  if (!head) return [];
  let outcomes: unknown[];
  try {
    outcomes = await db.batch([head, ...tail]);
  } catch (error) {
    throw await refusalOf(outbox, change, error);
  }
  const after = before.length + fanOuts.length;
  const own = outcomes.slice(after);
  enqueue([...due(own), ...firstDue(outcomes.slice(before.length, after).flatMap((rows) => rows as Delivery[]))]);
  return own;
}

type AnyChange = Omit<Change<unknown>, "result">;

/** The account whose storage a change adds to; undefined where it adds nothing. */
const accountOf = ({ accountId, events, audit, adds }: AnyChange): string | undefined =>
  accountId ?? events[0]?.accountId ?? audit?.[0]?.accountId ?? adds?.[0]?.accountId;

/** The conditions on which a change that goes on where the account is full still stores its events and its audit entries; null: it always does. */
function recordingOf(change: AnyChange): { ofEvents: SQL | null; ofAudit: SQL | null } {
  const { evenWhereFull, events } = change;
  const accountId = accountOf(change);
  if (accountId === undefined || (evenWhereFull !== true && evenWhereFull !== "unrecorded")) return { ofEvents: null, ofAudit: null };
  const withinReserve = isWithinReserve(accountId);
  return {
    ofEvents: events.length > 0 ? withinReserve : null,
    ofAudit: evenWhereFull === "unrecorded" ? sql`${hasRoom} AND ${withinReserve}` : null,
  };
}

/** What must hold in D1 at the moment in which a change is written. Throws for a change that adds something and names no account. */
function conditionsOf({ authority }: Outbox, change: AnyChange): BatchCondition[] {
  const { events, adds = [], addsBytes, evenWhereFull = false, scopes = [] } = change;
  const conditions: BatchCondition[] = authority ? [{ holds: authority.holds(scopes), name: authorityHolds }] : [];
  const accountId = accountOf(change);
  if (evenWhereFull === false) {
    if (accountId === undefined) throw new Error("a change that adds something names its account");
    conditions.push({ holds: hasRoom, name: databaseHasRoom }, { holds: isWithinQuota(accountId, addsBytes), name: accountHasRoom });
    if (events.length > 0) conditions.push({ holds: mayStore(accountId, "events"), name: mayStoreMore("events") });
  }
  if (evenWhereFull === "within the reserve" && accountId !== undefined)
    conditions.push({ holds: isWithinReserve(accountId), name: accountHasReserve });
  for (const { accountId, what } of adds) conditions.push({ holds: mayStore(accountId, what), name: mayStoreMore(what) });
  return conditions;
}

/** Why a change was not written: what is to be thrown. */
async function refusalOf({ authority }: Outbox, { scopes = [] }: AnyChange, error: unknown): Promise<unknown> {
  if (authority && isFailedCondition(error, authorityHolds)) return authority.refusal(scopes);
  if (isFailedCondition(error, databaseHasRoom))
    return new Failure("unavailable", "The database is full: only what ends or deletes something is still done.", { cause: error });
  if (isFailedCondition(error, accountHasRoom) || isFailedCondition(error, accountHasReserve)) return overQuota(error);
  const full = (Object.keys(maxStored) as Stored[]).find((what) => isFailedCondition(error, mayStoreMore(what)));
  return full ? storesAll(full) : error;
}

/** The commit of a caller that has nothing to join. */
export const commitTo =
  (outbox: Outbox): Commit =>
  (change) =>
    commitChange(outbox, change);

interface Delivery {
  id: string;
  webhook_id: string;
  status: string;
}

/** The deliveries that a change starts at once. Each attempt that ends starts another delivery. */
function firstDue(made: readonly Delivery[]): DueDelivery[] {
  const pending = made.filter(({ status }) => status === "pending");
  const byWebhook = [...Map.groupBy(pending, ({ webhook_id }) => webhook_id).values()];
  const first = byWebhook.flatMap((own) => own.slice(0, maxInFlight.ofWebhook));
  return first.slice(0, maxInFlight.ofAccount).map(({ id }) => ({ id, delayMs: 0 }));
}

/**
 * The statements that store events, and those that make their deliveries. They go before the change, whose condition they share: in
 * one transaction, what held then makes the change happen. They may be repeated: the id of a delivery follows from its event and its webhook.
 */
function storeEvents(
  db: Db,
  events: readonly Event[],
  when: SQL = sql`true`,
  requestId?: string,
): { inserts: Statement[]; fanOuts: Statement[] } {
  const inserts = insertEvents(db, events, when, requestId);
  const ids = jsonRows(events.map(({ accountId, id }) => [accountId, id]));
  const fanOuts = ids.map((made) =>
    raw<Delivery>(
      db,
      sql`INSERT OR IGNORE INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT ${deliveryId}, events.account_id, webhooks.id, events.id, events.type,
        iif(webhooks.state = 'active', 'pending', 'held'), 0, iif(webhooks.state = 'active', events.created_at, NULL), 0, events.created_at
      FROM json_each(${made}) AS made
      JOIN events ON events.account_id = made.value ->> 0 AND events.id = made.value ->> 1
      JOIN webhooks ON webhooks.account_id = events.account_id
      WHERE EXISTS (SELECT 1 FROM json_each(webhooks.event_types) AS wanted WHERE wanted.value IN ('*', events.type))
      RETURNING id, webhook_id, status`,
    ),
  );
  return { inserts, fanOuts };
}

/** The time of the event, what tells it from others of that millisecond, and the number of the webhook in its account: no two pairs share one. */
const deliveryId = sql.raw("'dlv_' || substr(events.id, 5, 12) || substr(events.id, -16) || printf('%04x', webhooks.number)");
