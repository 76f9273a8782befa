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

/**
 * Returns the traffic of all accounts. `unknown`: the log writers whose accounts are missing or incomplete, because the log writer or its database did
 * not respond.
 */
export async function readTraffic(
  { db, env }: { db: Db; env: WriterEnv },
  now: number,
): Promise<{ accounts: AccountTraffic[]; unknown: string[] }> {
  const unknown = new Set<string>();
  const all: AccountTraffic[] = [];
  for (let after = ""; ; ) {
    const accounts = await accountsAfter(db, after, accountsAtOnce);
    for (const [logWriter, own] of Map.groupBy(accounts, (account) => account.logWriter)) {
      const fail = (error: unknown) => {
        console.error(`cannot read the traffic in ${logWriter} for the operator:`, messagesOf(error));
        unknown.add(logWriter);
      };
      const open = await readOpen(env, logWriter, own).catch((error: unknown) => {
        fail(error);
        return new Map<string, OpenTallies>();
      });
      await trafficOf(db, activityDatabase(env, logWriter), { accounts: own, open }, now).then((traffic) => all.push(...traffic), fail);
    }
    const last = accounts.at(-1);
    if (!last || accounts.length < accountsAtOnce) return { accounts: all, unknown: [...unknown] };
    after = last.id;
  }
}

/** Asks a log writer for the tallies of accounts that D1 may not have yet. */
const readOpen = (env: WriterEnv, logWriter: string, accounts: readonly Account[]): Promise<Map<string, OpenTallies>> =>
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

async function trafficOf(
  db: Db,
  activity: D1Database,
  { accounts, open }: { accounts: readonly Account[]; open: ReadonlyMap<string, OpenTallies> },
  now: number,
): Promise<AccountTraffic[]> {
  const ids = JSON.stringify(accounts.map(({ id }) => id));
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
  // If the log writer has stored a cut after it was asked, its requests are in both answers. They are left out here.
  const missing = [...open].map(([id, tallies]) => [id, missingIn(tallies, cuts.get(id) ?? 0)] as const);
  const used = [...((hour?.results ?? []) as Use[]), ...missing.flatMap(([id, hours]) => usesIn(id, hours.get(hourStart(now))))];
  const usedBy = Map.groupBy(used, ({ id }) => id);
  const sums = [...((days?.results ?? []) as Sums[]), ...missing.map(([id, hours]) => sumsOf(id, hours, yesterday))];
  const sumsBy = Map.groupBy(sums, ({ id }) => id);
  const limits = await limitsOf(
    db,
    used.map(({ keyId }) => keyId),
  );
  const stored = await db
    .select({ id: accountStorage.accountId, bytes: accountStorage.bytes })
    .from(accountStorage)
    .where(sql`${accountStorage.accountId} IN (SELECT value FROM json_each(${ids}))`);
  const storedBy = new Map(stored.map(({ id, bytes }) => [id, bytes]));
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
