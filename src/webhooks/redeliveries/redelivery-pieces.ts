import { and, asc, eq, isNotNull, lte, max, type SQL, sql } from "drizzle-orm";
import { isWithinQuota } from "../../accounts/storage.ts";
import { redeliveries, type StoredRedeliveryFilter } from "../../db/areas/webhooks/tables.ts";
import { Batch } from "../../db/batch.ts";
import { type Db, raw, type Statement } from "../../db/client.ts";
import { idBound, newId } from "../../lib/ids.ts";
import { inTurns } from "../../lib/in-turns.ts";
import { minuteMs } from "../../lib/time/clock.ts";
import type { DueDelivery, EnqueueDeliveries } from "../../outbox/enqueue.ts";
import { paceMs, soonMs } from "../deliveries/schedule.ts";
import type { Webhook } from "../subscriptions/webhook.ts";

// A redelivery can include any number of deliveries. D1 runs only one statement at a time, so a long statement would block other users of
// D1. A redelivery therefore reads its deliveries in pieces, in the order of their ids, and stores a cursor. If an event has several
// deliveries to the webhook, a redelivery considers only the latest delivery. A delivery is the latest if no other delivery supersedes it.

export type Redelivery = typeof redeliveries.$inferSelect;
type Status = StoredRedeliveryFilter["statuses"][number];
type Target = Pick<Webhook, "accountId" | "id">;

/**
 * The maximum number of deliveries that one piece reads. `sentAtOnce` applies to a piece that sends deliveries. `countedAtOnce` applies to
 * a piece that only counts deliveries.
 */
export const sentAtOnce = 500;
const countedAtOnce = 10_000;
/**
 * The scheduled job creates the next piece of a redelivery when the first delivery of the piece is due within this time, in milliseconds.
 */
const aheadMs = 3 * minuteMs;

/** Returns a SELECT of the deliveries of a webhook, ordered by id. Its conditions match an index, so SQLite reads few other rows. */
const candidates = ({ accountId, id }: Target, status: Status, after: string, before: string, limit: number): SQL =>
  status === "delivered"
    ? sql`SELECT * FROM deliveries WHERE account_id = ${accountId} AND webhook_id = ${id} AND id > ${after} AND id < ${before} ORDER BY id LIMIT ${limit}`
    : sql`SELECT * FROM deliveries WHERE webhook_id = ${id} AND status <> 'delivered' AND status = ${status} AND id > ${after} AND id < ${before} ORDER BY id LIMIT ${limit}`;

const isWanted = (status: Status, { fromId, toId, eventTypes }: StoredRedeliveryFilter): SQL =>
  sql`superseded_by IS NULL AND status = ${status} AND event_id >= ${fromId}
    ${toId === null ? sql`` : sql`AND event_id < ${toId}`}
    ${eventTypes === null ? sql`` : sql`AND event_type IN (SELECT value FROM json_each(${JSON.stringify(eventTypes)}))`}`;

/** Returns a lower bound for the delivery ids of the selected events. A delivery is never older than its event. */
const firstAfter = ({ fromId }: StoredRedeliveryFilter): string => fromId.replace("evt_", "dlv_");

/**
 * Counts the deliveries that match a filter, separately for each status. Also collects the event types of these deliveries. Each statement
 * reads up to 10,000 deliveries.
 */
export async function countMatching(
  db: Db,
  webhook: Target,
  filter: StoredRedeliveryFilter,
  now: number,
): Promise<{ byStatus: Map<Status, number>; types: Set<string> }> {
  const byStatus = new Map<Status, number>();
  const types = new Set<string>();
  for (const status of filter.statuses) {
    for (let after: string | null = firstAfter(filter); after !== null; ) {
      const found: { type: string; count: number; candidates: number; last: string }[] = await db.all(
        sql`SELECT event_type AS type, sum(${isWanted(status, filter)}) AS count, count(*) AS candidates, max(id) AS last
          FROM (${candidates(webhook, status, after, upTo(now), countedAtOnce)}) GROUP BY event_type`,
      );
      for (const { type, count } of found) {
        if (count > 0) types.add(type);
        byStatus.set(status, (byStatus.get(status) ?? 0) + count);
      }
      const seen = found.reduce((sum, each) => sum + each.candidates, 0);
      const lasts = found.map(({ last }) => last).toSorted();
      after = seen < countedAtOnce ? null : (lasts.at(-1) ?? null);
    }
  }
  return { byStatus, types };
}

/** Returns an upper bound for delivery ids. The bound excludes deliveries that are created after `now`. */
const upTo = (now: number): string => idBound("dlv", now + 1);

/** Returns the cursor of a redelivery that has not created any deliveries yet. */
export const firstCursor = (filter: StoredRedeliveryFilter): string => `${filter.statuses[0]} ${firstAfter(filter)}`;

/**
 * One piece of a redelivery. If the redelivery's cursor has moved since it was read, the statements of the piece have no effect. `after`:
 * the state of the redelivery after the piece.
 */
interface Piece {
  statements: { repetitions: Statement; marks: readonly Statement[] };
  /** Returns the deliveries of the piece that are due soon. `made`: the rows of `repetitions`. */
  due: (made: readonly unknown[]) => DueDelivery[];
  after: Redelivery;
}

/**
 * Reads the next deliveries of a redelivery and returns the statements that repeat the matching deliveries. If an attempt of a delivery is
 * in flight, the delivery is skipped. Any other pending delivery becomes `failed`, and its repetition takes its place. If the webhook is
 * disabled or the account reaches its storage quota, the redelivery ends early.
 */
export async function nextPiece(
  db: Db,
  redelivery: Redelivery & { filter: StoredRedeliveryFilter; cursor: string },
  now: number,
): Promise<Piece> {
  const { accountId, id, webhookId, cursor } = redelivery;
  const webhook = { accountId, id: webhookId };
  const { wanted, nextCursor } = await readNext(db, webhook, redelivery, now);
  const startAt = await freeFrom(db, webhook, now);
  const pairs = wanted.map((each, index) => [each.id, newId("dlv", now), startAt + index * paceMs, each.status]);
  const json = JSON.stringify(pairs);
  const after = { ...redelivery, cursor: nextCursor, nextAt: startAt + pairs.length * paceMs };
  const isOpen = sql`EXISTS (SELECT 1 FROM redeliveries WHERE ${ownRow(redelivery)} AND cursor = ${cursor})
    AND EXISTS (SELECT 1 FROM webhooks WHERE account_id = ${accountId} AND id = ${webhookId} AND state = 'active')
    AND ${isWithinQuota(accountId)}`;
  const repetitions = raw<{ id: string; at: number }>(
    db,
    sql`INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, redelivery_of, redelivery_id, status, attempts_made, next_attempt_at, claimed_until, created_at)
        SELECT pair.value ->> 1, ${accountId}, ${webhookId}, old.event_id, old.event_type, old.id, ${id}, 'pending', 0, pair.value ->> 2, 0, ${now}
        FROM json_each(${json}) AS pair CROSS JOIN deliveries AS old ON old.id = pair.value ->> 0
        WHERE old.superseded_by IS NULL AND old.status = pair.value ->> 3 AND old.claimed_until <= ${now} AND ${isOpen}
        RETURNING id, next_attempt_at AS at`,
  );
  const marks = [
    raw(
      db,
      sql`UPDATE deliveries SET superseded_by = made.id, status = iif(status = 'pending', 'failed', status), next_attempt_at = NULL
        FROM (SELECT pair.value ->> 0 AS old, pair.value ->> 1 AS id FROM json_each(${json}) AS pair) AS made
        WHERE deliveries.id = made.old AND EXISTS (SELECT 1 FROM deliveries AS repetition WHERE repetition.id = made.id)`,
    ),
    raw(
      db,
      sql`UPDATE redeliveries SET cursor = iif(${isOpen}, ${nextCursor}, NULL), next_at = ${after.nextAt},
        made = made + (SELECT count(*) FROM json_each(${json}) AS pair CROSS JOIN deliveries ON deliveries.id = pair.value ->> 1)
        WHERE ${ownRow(redelivery)} AND cursor = ${cursor}`,
    ),
    // A redelivery may create fewer deliveries than it counted. After the count, another redelivery or a final attempt may have changed
    // some of the counted deliveries.
    raw(db, sql`UPDATE redeliveries SET count = made WHERE ${ownRow(redelivery)} AND cursor IS NULL`),
  ];
  const due = (made: readonly unknown[]) =>
    (made as { id: string; at: number }[]).filter(({ at }) => at <= now + soonMs).map((each) => ({ id: each.id, delayMs: each.at - now }));
  return { statements: { repetitions, marks }, due, after };
}

/**
 * Reads up to 500 deliveries from the cursor on, one status after another. Returns the matching deliveries and the cursor of the next
 * piece.
 */
async function readNext(
  db: Db,
  webhook: Target,
  { filter, cursor, createdAt }: { filter: StoredRedeliveryFilter; cursor: string; createdAt: number },
  now: number,
): Promise<{ wanted: { id: string; status: Status }[]; nextCursor: string | null }> {
  const wanted: { id: string; status: Status }[] = [];
  let [status, after] = cursor.split(" ") as [Status, string];
  for (let left = sentAtOnce; ; ) {
    const found = await db.all<{ id: string; isWanted: number }>(
      sql`SELECT id, (${isWanted(status, filter)} AND claimed_until <= ${now}) AS isWanted
        FROM (${candidates(webhook, status, after, upTo(createdAt), left)}) ORDER BY id`,
    );
    for (const each of found) if (each.isWanted === 1) wanted.push({ id: each.id, status });
    const last = found.at(-1);
    if (last && found.length === left) return { wanted, nextCursor: `${status} ${last.id}` };
    left -= found.length;
    const next = filter.statuses[filter.statuses.indexOf(status) + 1];
    if (!next) return { wanted, nextCursor: null };
    [status, after] = [next, firstAfter(filter)];
  }
}

const ownRow = ({ accountId, id }: Pick<Redelivery, "accountId" | "id">): SQL =>
  sql`redeliveries.account_id = ${accountId} AND redeliveries.id = ${id}`;

/**
 * Returns the earliest time at which another redelivered event may be sent to a webhook, in milliseconds since the epoch. All redeliveries
 * to the same webhook share the pace of five deliveries per second.
 */
async function freeFrom(db: Db, { accountId, id }: Target, now: number): Promise<number> {
  const [last] = await db
    .select({ at: max(redeliveries.nextAt) })
    .from(redeliveries)
    .where(and(eq(redeliveries.webhookId, id), eq(redeliveries.accountId, accountId)));
  return Math.max(now, last?.at ?? 0);
}

/** Returns whether the next deliveries of a redelivery are due within three minutes. */
const isDue = ({ cursor, nextAt }: Redelivery, now: number): boolean => cursor !== null && nextAt <= now + aheadMs;

/**
 * Lists redeliveries that must create deliveries now. The list starts with one redelivery of each account. A second redelivery of each
 * account follows, and so on.
 */
const readDue = (db: Db, now: number, limit: number): Promise<Redelivery[]> =>
  db
    .select()
    .from(redeliveries)
    .where(and(isNotNull(redeliveries.cursor), lte(redeliveries.nextAt, now + aheadMs)))
    .orderBy(sql`row_number() OVER (PARTITION BY ${redeliveries.accountId} ORDER BY ${redeliveries.nextAt})`, asc(redeliveries.nextAt))
    .limit(limit);

/**
 * Continues redeliveries whose next deliveries are due within three minutes. Creates at most `limit` pieces in total. Accounts take turns,
 * and each turn creates one piece. No account therefore waits for all pieces of another account. Returns the number of created pieces.
 */
export async function continueRedeliveries(
  { db, enqueue }: { db: Db; enqueue: EnqueueDeliveries },
  now: number,
  limit: number,
): Promise<number> {
  const byAccount = Map.groupBy(await readDue(db, now, limit), ({ accountId }) => accountId);
  return inTurns(byAccount.values(), limit, async (redelivery) => {
    const after = await makePiece(db, enqueue, redelivery, now);
    return isDue(after, now) ? after : null;
  });
}

/** Creates the next deliveries of a redelivery. Returns the redelivery with its new cursor. */
async function makePiece(db: Db, enqueue: EnqueueDeliveries, redelivery: Redelivery, now: number): Promise<Redelivery> {
  const { filter, cursor } = redelivery;
  if (filter === null || cursor === null) return { ...redelivery, cursor: null };
  const { statements, due, after } = await nextPiece(db, { ...redelivery, filter, cursor }, now);
  const batch = new Batch();
  const made = batch.add(statements.repetitions);
  for (const mark of statements.marks) batch.add(mark);
  await batch.run(db);
  enqueue(due(made.rows));
  return after;
}
