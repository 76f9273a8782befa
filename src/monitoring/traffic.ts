import { sql } from "drizzle-orm";
import { defaultQuotaBytes } from "../accounts/storage.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { accountStorage } from "../db/registry/tables.ts";
import { inBatches } from "../lib/in-batches.ts";
import { dayMs, dayStart, hourStart, secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { activityDatabase } from "../log/databases.ts";
import { type WriterEnv, writerAt } from "../log/writers.ts";
import type { OpenRollups } from "../usage/log-context.ts";
import type { HourlyRollups } from "../usage/rollups.ts";
import { type AccountInTraffic, accountsInTraffic } from "./accounts-in-traffic.ts";
import { type NearestLimit, nearestLimits, type Use, usesIn } from "./nearest-limits.ts";
import { flushesIn, flushesQuery, type LogsContext, readLogs, type Stored, total } from "./read-logs.ts";

// Traffic figures help an operator find accounts that may need attention. The figures never include content that accounts store or request.

/** The traffic of one account since the start of yesterday (UTC). */
export interface AccountTraffic {
  id: string;
  name: string;
  isSuspended: boolean;
  requests: number;
  /** The number of responses with a status of 500 or above. */
  errors: number;
  /** The number of responses with status 429. */
  limited: number;
  /** The number of requests in the seven days before yesterday (UTC). */
  before: number;
  /** The limits of a key and of the account with the highest used shares. The higher share is first. Empty if none is used. */
  nearest: NearestLimit[];
  /** The number of bytes that the account stores in the main database. */
  storedBytes: number;
  quotaBytes: number;
}

/** The accounts of a log writer that are read together. With 100,000 accounts of 32 log writers, a page needs about 450 statements. */
const accountsAtOnce = 2000;
/** The log writers that are asked together. Cloudflare opens at most six connections at a time for an invocation. */
const writersAtOnce = 6;
const daysBefore = 7;
const openTimeoutMs = 3 * secondMs;

/**
 * Returns the traffic of all accounts. `unknown`: the log writers whose accounts are missing or incomplete, because the log writer or its database did
 * not respond.
 */
export async function readTraffic(
  { db, env }: { db: Db; env: WriterEnv },
  now: number,
): Promise<{ accounts: AccountTraffic[]; unknown: string[] }> {
  const accounts = await accountsInTraffic(db);
  const all: AccountTraffic[] = [];
  const unknown = new Set<string>();
  const readWriter = async ([logWriter, ofWriter]: readonly [string, readonly AccountInTraffic[]]) => {
    const fail = (error: unknown) => {
      console.error(`cannot read the traffic in ${logWriter} for the operator:`, messagesOf(error));
      unknown.add(logWriter);
    };
    const readOpen = (accounts: readonly AccountInTraffic[]) =>
      openRollupsOf(env, logWriter, accounts).catch((error: unknown) => {
        fail(error);
        return new Map<string, OpenRollups>();
      });
    for (const some of inBatches(ofWriter, accountsAtOnce))
      await trafficOf({ db, activity: activityDatabase(env, logWriter), readOpen }, some, now).then(
        (traffic) => all.push(...traffic),
        fail,
      );
  };
  const writers = [...Map.groupBy(accounts, (account) => account.logWriter)];
  for (const some of inBatches(writers, writersAtOnce)) await Promise.all(some.map(readWriter));
  return { accounts: all, unknown: [...unknown] };
}

/** Asks a log writer for the rollups of accounts that D1 may not have yet. */
const openRollupsOf = (env: WriterEnv, logWriter: string, accounts: readonly AccountInTraffic[]): Promise<Map<string, OpenRollups>> =>
  withDeadline(
    writerAt(env, logWriter).openRollupsOf(accounts.map(({ id }) => id)) as Promise<Map<string, OpenRollups>>,
    openTimeoutMs,
    `Asking the log writer ${logWriter}`,
  );

interface Sums {
  id: string;
  isRecent: number;
  requests: number;
  errors: number;
  limited: number;
}

/** The figures of accounts in D1. */
interface StoredTraffic extends Stored {
  sums: Sums[];
  uses: Use[];
}

async function readStored(activity: D1Database, ids: string, now: number): Promise<StoredTraffic> {
  const yesterday = dayStart(now) - dayMs;
  const [logs, days, hour] = await activity.batch([
    flushesQuery(activity, ids),
    activity
      .prepare(
        `SELECT account_id AS id, start >= ?2 AS isRecent, sum(status.value ->> 0) AS requests,
          sum(iif(status.key >= '500', status.value ->> 0, 0)) AS errors, sum(iif(status.key = '429', status.value ->> 0, 0)) AS limited
        FROM json_each(?1) AS account CROSS JOIN day_totals AS day ON day.account_id = account.value AND day.part = 0 AND day.start >= ?3,
          json_each(day.totals, '$.byStatus') AS status GROUP BY 1, 2`,
      )
      .bind(ids, yesterday, yesterday - daysBefore * dayMs),
    activity
      .prepare(
        `SELECT account_id AS id, rollup.value ->> 0 AS keyId, sum(cell.value ->> 3) AS counted FROM json_each(?1) AS account
          CROSS JOIN hour_totals AS hour ON hour.account_id = account.value AND hour.start = ?2, json_each(hour.keys) AS rollup,
          json_each(rollup.value, '$[2]') AS cell GROUP BY 1, 2`,
      )
      .bind(ids, hourStart(now)),
  ]);
  return { sums: (days?.results ?? []) as Sums[], uses: (hour?.results ?? []) as Use[], flushes: flushesIn(logs) };
}

async function trafficOf(context: LogsContext, accounts: readonly AccountInTraffic[], now: number): Promise<AccountTraffic[]> {
  const { db, activity } = context;
  const { stored, missing } = await readLogs(context, accounts, (ids) => readStored(activity, ids, now));
  const uses = [...stored.uses, ...missing.flatMap(([id, hours]) => usesIn(id, hours, hourStart(now)))];
  const nearest = await nearestLimits(context, accounts, uses, now);
  const sums = [...stored.sums, ...missing.map(([id, hours]) => sumsOf(id, hours, dayStart(now) - dayMs))];
  const sumsBy = Map.groupBy(sums, ({ id }) => id);
  const storage = await db
    .select({ id: accountStorage.accountId, bytes: accountStorage.bytes })
    .from(accountStorage)
    .where(sql`${accountStorage.accountId} IN (SELECT value FROM json_each(${JSON.stringify(accounts.map(({ id }) => id))}))`);
  const storedBy = new Map(storage.map(({ id, bytes }) => [id, bytes]));
  return accounts.map(({ id, name, suspendedAt, storageQuotaBytes }) => {
    const [recent = [], before = []] = [1, 0].map((isRecent) => (sumsBy.get(id) ?? []).filter((each) => each.isRecent === isRecent));
    return {
      id,
      name,
      isSuspended: suspendedAt !== null,
      requests: total(recent, "requests"),
      errors: total(recent, "errors"),
      limited: total(recent, "limited"),
      before: total(before, "requests"),
      nearest: nearest.get(id) ?? [],
      storedBytes: storedBy.get(id) ?? 0,
      quotaBytes: storageQuotaBytes ?? defaultQuotaBytes,
    };
  });
}

/** Sums up the requests of an account since `from` that D1 does not have. */
function sumsOf(id: string, hours: HourlyRollups, from: number): Sums {
  const cells = [...hours]
    .filter(([start]) => start >= from)
    .flatMap(([, rollups]) => [...rollups.values()].flatMap((rollup) => [...rollup.cells.values()]));
  const [failed, limited] = [cells.filter(({ status }) => status >= 500), cells.filter(({ status }) => status === 429)];
  const requestsIn = (some: typeof cells) => total(some, "requests");
  return { id, isRecent: 1, requests: requestsIn(cells), errors: requestsIn(failed), limited: requestsIn(limited) };
}
