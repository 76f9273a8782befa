import { sql } from "drizzle-orm";
import { type Account, accountsAfter } from "../accounts/account.ts";
import { activityDatabase } from "../activity/databases.ts";
import { type WriterEnv, writerAt } from "../activity/writers.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { defaultQuotaBytes } from "../storage/storage.ts";
import { accountStorage } from "../storage/tables.ts";
import { dayMs, dayStart, hourStart, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import type { OpenTallies } from "../usage/log-context.ts";
import { missingIn } from "../usage/open-log.ts";
import type { HourlyTallies, Tallies } from "../usage/tallies.ts";

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
  /** The highest use of an hourly limit by a key of the account in the current hour, in percent. */
  usedPercent: number;
  /** The id of the key with the highest use of its limit, or null if no key has been used in the current hour. */
  keyId: string | null;
  /** The number of bytes that the account stores in the main database. */
  storedBytes: number;
  quotaBytes: number;
}

const accountsAtOnce = 500;
const daysBefore = 7;
const openTimeoutMs = 3 * secondMs;
const maxAttempts = 3;

/**
 * Returns the traffic of all accounts. `unknown`: the log writers whose accounts are missing or incomplete, because the log writer or its database did
 * not respond.
 */
export async function readTraffic(
  { db, env }: { db: Db; env: WriterEnv },
  now: number,
): Promise<{ accounts: AccountTraffic[]; unknown: string[] }> {
  const accounts = await allAccounts(db);
  const all: AccountTraffic[] = [];
  const unknown = new Set<string>();
  for (const [logWriter, ofWriter] of Map.groupBy(accounts, (account) => account.logWriter)) {
    const fail = (error: unknown) => {
      console.error(`cannot read the traffic in ${logWriter} for the operator:`, messagesOf(error));
      unknown.add(logWriter);
    };
    const readOpen = (accounts: readonly Account[]) =>
      openTalliesOf(env, logWriter, accounts).catch((error: unknown) => {
        fail(error);
        return new Map<string, OpenTallies>();
      });
    for (let from = 0; from < ofWriter.length; from += accountsAtOnce) {
      const some = ofWriter.slice(from, from + accountsAtOnce);
      await trafficOf({ db, activity: activityDatabase(env, logWriter), readOpen }, some, now).then(
        (traffic) => all.push(...traffic),
        fail,
      );
    }
  }
  return { accounts: all, unknown: [...unknown] };
}

async function allAccounts(db: Db): Promise<Account[]> {
  const all: Account[] = [];
  for (let after = ""; ; ) {
    const accounts = await accountsAfter(db, after, accountsAtOnce);
    all.push(...accounts);
    const last = accounts.at(-1);
    if (!last || accounts.length < accountsAtOnce) return all;
    after = last.id;
  }
}

/** Asks a log writer for the tallies of accounts that D1 may not have yet. */
const openTalliesOf = (env: WriterEnv, logWriter: string, accounts: readonly Account[]): Promise<Map<string, OpenTallies>> =>
  withDeadline(
    writerAt(env, logWriter).openTalliesOf(accounts.map(({ id }) => id)) as Promise<Map<string, OpenTallies>>,
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

/** The use of the limit of a key in the current hour. */
interface Use {
  id: string;
  keyId: string;
  counted: number;
}

/** What is needed to read the traffic of accounts of one log writer. `activity` is their database. */
interface TrafficContext {
  db: Db;
  activity: D1Database;
  /** Returns the tallies of accounts that D1 may not have yet. */
  readOpen: (accounts: readonly Account[]) => Promise<Map<string, OpenTallies>>;
}

/** The figures of accounts in D1. */
interface StoredTraffic {
  sums: Sums[];
  uses: Use[];
  /** The number of the last cut of each account. */
  cuts: ReadonlyMap<string, number>;
}

async function readStored(activity: D1Database, ids: string, now: number): Promise<StoredTraffic> {
  const yesterday = dayStart(now) - dayMs;
  const [logs, days, hour] = await activity.batch([
    activity.prepare("SELECT account_id AS id, cut FROM activity_logs WHERE account_id IN (SELECT value FROM json_each(?))").bind(ids),
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
        `SELECT account_id AS id, tally.value ->> 0 AS keyId, sum(cell.value ->> 3) AS counted FROM json_each(?1) AS account
          CROSS JOIN hour_totals AS hour ON hour.account_id = account.value AND hour.start = ?2, json_each(hour.keys) AS tally,
          json_each(tally.value, '$[2]') AS cell GROUP BY 1, 2`,
      )
      .bind(ids, hourStart(now)),
  ]);
  const cuts = new Map(((logs?.results ?? []) as { id: string; cut: number }[]).map(({ id, cut }) => [id, cut]));
  return { sums: (days?.results ?? []) as Sums[], uses: (hour?.results ?? []) as Use[], cuts };
}

/**
 * Asks the log writer, and then reads from D1. If D1 has a cut that the log writer did not know, its requests would be counted twice, so both are read
 * again.
 */
async function readBoth({ activity, readOpen }: TrafficContext, accounts: readonly Account[], now: number) {
  const ids = JSON.stringify(accounts.map(({ id }) => id));
  for (let attempt = 1; ; attempt++) {
    const open = await readOpen(accounts);
    const stored = await readStored(activity, ids, now);
    const isConsistent = [...open].every(([id, { cut }]) => (stored.cuts.get(id) ?? 0) <= cut);
    if (!isConsistent && attempt < maxAttempts) continue;
    const missing = [...open].map(([id, tallies]) => [id, missingIn(tallies, stored.cuts.get(id) ?? 0)] as const);
    return { stored, missing };
  }
}

async function trafficOf(context: TrafficContext, accounts: readonly Account[], now: number): Promise<AccountTraffic[]> {
  const { db } = context;
  const { stored, missing } = await readBoth(context, accounts, now);
  const used = [...stored.uses, ...missing.flatMap(([id, hours]) => usesIn(id, hours.get(hourStart(now))))];
  const usedBy = Map.groupBy(used, ({ id }) => id);
  const sums = [...stored.sums, ...missing.map(([id, hours]) => sumsOf(id, hours, dayStart(now) - dayMs))];
  const sumsBy = Map.groupBy(sums, ({ id }) => id);
  const limits = await limitsOf(
    db,
    used.map(({ keyId }) => keyId),
  );
  const storage = await db
    .select({ id: accountStorage.accountId, bytes: accountStorage.bytes })
    .from(accountStorage)
    .where(sql`${accountStorage.accountId} IN (SELECT value FROM json_each(${JSON.stringify(accounts.map(({ id }) => id))}))`);
  const storedBy = new Map(storage.map(({ id, bytes }) => [id, bytes]));
  return accounts.map(({ id, name, suspendedAt, storageQuotaBytes }) => {
    const [recent = [], before = []] = [1, 0].map((isRecent) => (sumsBy.get(id) ?? []).filter((each) => each.isRecent === isRecent));
    const byKey = Map.groupBy(usedBy.get(id) ?? [], ({ keyId }) => keyId);
    const [nearest] = [...byKey]
      .map(([keyId, uses]) => ({
        keyId,
        percent: (100 * total(uses, "counted")) / (limits.get(keyId) ?? Number.POSITIVE_INFINITY),
      }))
      .toSorted((one, other) => other.percent - one.percent);
    return {
      id,
      name,
      isSuspended: suspendedAt !== null,
      requests: total(recent, "requests"),
      errors: total(recent, "errors"),
      limited: total(recent, "limited"),
      before: total(before, "requests"),
      usedPercent: nearest?.percent ?? 0,
      keyId: nearest?.keyId ?? null,
      storedBytes: storedBy.get(id) ?? 0,
      quotaBytes: storageQuotaBytes ?? defaultQuotaBytes,
    };
  });
}

const total = <Name extends string>(items: readonly Record<Name, number>[], name: Name): number =>
  items.reduce((sum, item) => sum + item[name], 0);

/** Sums up the requests of an account since `from` that D1 does not have. */
function sumsOf(id: string, hours: HourlyTallies, from: number): Sums {
  const cells = [...hours]
    .filter(([start]) => start >= from)
    .flatMap(([, tallies]) => [...tallies.values()].flatMap((tally) => [...tally.cells.values()]));
  return {
    id,
    isRecent: 1,
    requests: total(cells, "requests"),
    errors: total(
      cells.filter(({ status }) => status >= 500),
      "requests",
    ),
    limited: total(
      cells.filter(({ status }) => status === 429),
      "requests",
    ),
  };
}

/** Returns the counted requests of each key that D1 does not have. */
const usesIn = (id: string, tallies: Tallies = new Map()): Use[] =>
  [...tallies].map(([keyId, { cells }]) => ({ id, keyId, counted: total([...cells.values()], "counted") }));

async function limitsOf(db: Db, keyIds: readonly string[]): Promise<Map<string, number>> {
  const rows = await db.all<{ id: string; hourly: number }>(
    sql`SELECT id, hourly_limit AS hourly FROM api_keys WHERE id IN (SELECT value FROM json_each(${JSON.stringify(keyIds)}))`,
  );
  return new Map(rows.map(({ id, hourly }) => [id, hourly]));
}
