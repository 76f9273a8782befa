import { type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import {
  countDroppedEvents,
  isWithinQuota,
  isWithinReserve,
  maxStored,
  mayStore,
  overQuota,
  rowLimitReached,
  type Stored,
} from "../accounts/storage.ts";
import { Batch } from "../db/batch.ts";
import { type BatchCondition, isFailedCondition, requireInBatch } from "../db/batch-condition.ts";
import { type Db, jsonRows, raw, type Statement } from "../db/client.ts";
import { hasRoom } from "../db/database-sizes.ts";
import { Failure } from "../lib/errors/failure.ts";
import { type AuditEntry, storeAudit } from "./audit.ts";
import { firstDeliveryId } from "./delivery-id.ts";
import type { DueDelivery, EnqueueDeliveries } from "./enqueue.ts";
import type { Event } from "./event.ts";
import { maxInFlight, unansweredHost } from "./in-flight.ts";
import { insertEvents } from "./store-events.ts";

/**
 * Says what happens to a change if the database or the account is full.
 *
 * - `deny` (the default): the change is denied.
 * - `write`: the change is written, and its events are dropped if the account's reserve is used up. For changes that end something once.
 * - `reserve`: the change is written only if the account's reserve has room. For changes that remove something and can be repeated without end.
 * - `unrecorded`: the change is written. Its events and audit entries are dropped if the account's reserve is used up. For sessions.
 */
export type WhenFull = "deny" | "write" | "reserve" | "unrecorded";

// The outbox: one atomic D1 batch writes a change, its events, and one delivery of each event to each subscribed webhook.

/** The statements of a change, by names that the caller chooses. They run in this order, in one transaction. */
export type Statements = Readonly<Record<string, Statement | readonly Statement[]>>;

/** The rows that the statements of a change have returned, by the names of the statements. */
export type Rows<Named extends Statements> = { readonly [Name in keyof Named]: readonly unknown[] };

/** One atomic change, with its events and its result. */
export interface Change<Named extends Statements = Statements> {
  /** What the verb returns. The response that is stored for an Idempotency-Key is made of it. */
  result?: unknown;
  events: readonly Event[];
  statements: Named;
  /** A condition on the rows before the change. If the condition is false, the statements must do nothing. */
  when?: SQL;
  audit?: readonly AuditEntry[];
  /** If this condition is false, the audit entries are not written. */
  auditWhen?: SQL;
  /** The scopes that the acting key must still have when the change is written, in addition to the scope of the operation. */
  scopes?: readonly string[];
  /**
   * The account whose used storage grows with the change. If no event, audit entry or item of `adds` names the account, this value is
   * required.
   */
  accountId?: string;
  /** The tables with a row limit per account to which the statements add rows. The table of events is not listed here. */
  adds?: readonly { accountId: string; what: Stored }[];
  /** The number of bytes that the statements add. Only changes that add more than a row or two need this number. */
  addsBytes?: number;
  whenFull?: WhenFull;
  /** Receives the rows of the statements. Returns the deliveries that the statements created and that must be enqueued. */
  due?: (rows: Rows<Named>) => readonly DueDelivery[];
}

/** Runs the statements of a change in one D1 batch, and returns their rows. An implementation can add other statements to the batch. */
export type Commit = <Named extends Statements>(change: Change<Named>) => Promise<Rows<Named>>;

/**
 * The permissions of the acting key or member. D1 checks these permissions when a change is written. `scopes`: the required scopes, in
 * addition to the scope of the operation.
 */
export interface Authority {
  holds(scopes: readonly string[]): SQL;
  /** Returns the error that says which permission is missing. */
  denial(scopes: readonly string[]): Promise<Failure>;
}

/** The context of a function that writes changes. */
export interface WriteContext extends ReadContext {
  commit: Commit;
}

/** The context for writing changes. Without `enqueue`, deliveries wait for the sweep. Without `authority`, no permissions are checked. */
export interface Outbox {
  db: Db;
  enqueue?: EnqueueDeliveries;
  authority?: Authority;
  /** The request that causes the changes. */
  requestId?: string;
  /** Returns what is written in the batch of a change, besides the change itself. */
  alongside?: (change: Change) => { statements: Statement[]; adds: NonNullable<Change["adds"]> };
}

const authorityHolds = "the actor is still allowed";
const databaseHasRoom = "the database has room";
const accountHasRoom = "the account is within its quota";
const accountHasReserve = "the account is within its reserve";
const mayStoreMore = (what: Stored) => `the account may store more ${what}`;

/**
 * Writes a change, its events, and one delivery of each event to every subscribed webhook, in one D1 batch. `first`: statements that run before the
 * statements of the change. Returns the rows of the statements of the change. If `authority` no longer permits the change, writes nothing and
 * throws the error from `authority`. Throws `unavailable` if the database is full, and `limit_reached` if the account is full.
 */
export async function commitChange<Named extends Statements>(
  outbox: Outbox,
  given: Change<Named>,
  first: readonly Statement[] = [],
): Promise<Rows<Named>> {
  const { db, enqueue = () => {}, requestId } = outbox;
  const more = outbox.alongside?.(given as unknown as Change);
  const change: Change<Named> = more ? { ...given, adds: [...(given.adds ?? []), ...more.adds] } : given;
  const { events, statements, when = sql`true`, audit = [], auditWhen = sql`true`, due = () => [] } = change;
  const { ofEvents, ofAudit } = recordingOf(change);
  const { inserts, fanOuts } = eventStatements(db, events, ofEvents === null ? when : sql`${when} AND ${ofEvents}`, requestId);
  const [event] = events;
  const dropped =
    ofEvents === null || !event ? [] : [countDroppedEvents(db, event.accountId, events.length, sql`${when} AND NOT (${ofEvents})`)];
  const required = conditionsOf(outbox, change);
  const batch = new Batch();
  const add = (...some: readonly Statement[]) => some.map((statement) => batch.add(statement));
  if (required.length > 0) add(requireInBatch(db, ...required));
  add(...first, ...(more?.statements ?? []));
  add(...storeAudit(db, audit, sql`${when} AND ${auditWhen} AND ${ofAudit ?? sql`true`}`), ...dropped, ...inserts);
  const made = add(...fanOuts);
  const own = Object.entries(statements).map(([name, some]) => [name, add(...(Array.isArray(some) ? some : [some]))] as const);
  try {
    await batch.run(db);
  } catch (error) {
    throw await commitErrorOf(outbox, change, error);
  }
  const rows = Object.fromEntries(own.map(([name, handles]) => [name, handles.flatMap((handle) => handle.rows)])) as unknown as Rows<Named>;
  enqueue([...due(rows), ...firstDue(made.flatMap((handle) => handle.rows as readonly Delivery[]))]);
  return rows;
}

/** A change, for what does not depend on its statements. */
type AnyChange = Omit<Change, "statements" | "due">;

/** Returns the account whose used storage grows with a change. If the change names no account, returns undefined. */
const accountOf = ({ accountId, events, audit, adds }: AnyChange): string | undefined =>
  accountId ?? events[0]?.accountId ?? audit?.[0]?.accountId ?? adds?.[0]?.accountId;

/**
 * Returns one condition for storing the events of a change, and one condition for storing its audit entries. A null condition means that
 * the events or audit entries are always stored.
 */
function recordingOf(change: AnyChange): { ofEvents: SQL | null; ofAudit: SQL | null } {
  const { whenFull, events } = change;
  const accountId = accountOf(change);
  if (accountId === undefined || (whenFull !== "write" && whenFull !== "unrecorded")) return { ofEvents: null, ofAudit: null };
  const withinReserve = isWithinReserve(accountId);
  return {
    ofEvents: events.length > 0 ? withinReserve : null,
    ofAudit: whenFull === "unrecorded" ? sql`${hasRoom} AND ${withinReserve}` : null,
  };
}

/** Returns the conditions that must be true in D1 when a change is written. Throws if a change adds something but names no account. */
function conditionsOf({ authority }: Outbox, change: AnyChange): BatchCondition[] {
  const { events, adds = [], addsBytes, whenFull = "deny", scopes = [] } = change;
  const conditions: BatchCondition[] = authority ? [{ holds: authority.holds(scopes), name: authorityHolds }] : [];
  const accountId = accountOf(change);
  if (whenFull === "deny") {
    if (accountId === undefined) throw new Error("a change that adds something names its account");
    conditions.push({ holds: hasRoom, name: databaseHasRoom }, { holds: isWithinQuota(accountId, addsBytes), name: accountHasRoom });
    if (events.length > 0) conditions.push({ holds: mayStore(accountId, "events"), name: mayStoreMore("events") });
  }
  if (whenFull === "reserve" && accountId !== undefined) conditions.push({ holds: isWithinReserve(accountId), name: accountHasReserve });
  for (const { accountId, what } of adds) conditions.push({ holds: mayStore(accountId, what), name: mayStoreMore(what) });
  return conditions;
}

/** Returns the error to throw for a change that was not written. */
async function commitErrorOf({ authority }: Outbox, { scopes = [] }: AnyChange, error: unknown): Promise<unknown> {
  if (authority && isFailedCondition(error, authorityHolds)) return authority.denial(scopes);
  if (isFailedCondition(error, databaseHasRoom))
    return new Failure("unavailable", "The database is full. Only changes that end or delete something are still possible.", {
      cause: error,
    });
  if (isFailedCondition(error, accountHasRoom) || isFailedCondition(error, accountHasReserve)) return overQuota(error);
  const full = (Object.keys(maxStored) as Stored[]).find((what) => isFailedCondition(error, mayStoreMore(what)));
  return full ? rowLimitReached(full) : error;
}

/** Returns a `Commit` that adds no other statements to the batch. */
export const commitTo =
  (outbox: Outbox): Commit =>
  (change) =>
    commitChange(outbox, change);

interface Delivery {
  id: string;
  webhook_id: string;
  status: string;
  /** The host of the webhook if it has never answered with 2xx, or null. */
  unanswered_host: string | null;
}

/** Returns the deliveries of a change that can start immediately. The other deliveries start when attempts end. */
function firstDue(made: readonly Delivery[]): DueDelivery[] {
  const pending = made.filter(({ status }) => status === "pending");
  const byWebhook = [...Map.groupBy(pending, ({ webhook_id }) => webhook_id).values()];
  const first = byWebhook.flatMap((own) => own.slice(0, maxInFlight.ofWebhook)).filter(isFirstAtHost());
  return first.slice(0, maxInFlight.ofAccount).map(({ id }) => ({ id, delayMs: 0 }));
}

/** Returns a filter that keeps one delivery for each host that has never answered. Such a host gets one attempt at a time. */
function isFirstAtHost(): (delivery: Delivery) => boolean {
  const hosts = new Set<string>();
  return ({ unanswered_host: host }) => host === null || hosts.size < hosts.add(host).size;
}

/**
 * Returns two lists: `inserts` are the statements that store events, and `fanOuts` are the statements that create the deliveries of these
 * events. All these statements run before the change's own statements, in the same transaction and under the same condition. The statements
 * are idempotent, because the id of a delivery is derived from its event and its webhook.
 */
function eventStatements(
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
      SELECT ${firstDeliveryId}, events.account_id, webhooks.id, events.id, events.type,
        iif(webhooks.state = 'active', 'pending', 'held'), 0, iif(webhooks.state = 'active', events.created_at, NULL), 0, events.created_at
      FROM json_each(${made}) AS made
      JOIN events ON events.account_id = made.value ->> 0 AND events.id = made.value ->> 1
      JOIN webhooks ON webhooks.account_id = events.account_id
      WHERE EXISTS (SELECT 1 FROM json_each(webhooks.event_types) AS wanted WHERE wanted.value IN ('*', events.type))
      RETURNING id, webhook_id, status, ${unansweredHost} AS unanswered_host`,
    ),
  );
  return { inserts, fanOuts };
}
