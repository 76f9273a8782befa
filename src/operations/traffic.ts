import { sql } from "drizzle-orm";
import { type Account, accountsAfter } from "../accounts/account.ts";
import { activityDatabase } from "../activity/databases.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { defaultQuotaBytes } from "../storage/storage.ts";
import { accountStorage } from "../storage/tables.ts";
import { dayMs, dayStart, hourStart } from "../time/clock.ts";

// Traffic figures help an operator find accounts that may need attention. The figures never include content that accounts store or request.

/** The traffic of one account since the start of yesterday (UTC). Requests that are not cut yet are missing. */
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

/** Returns the traffic of all accounts. `unknown`: the bindings of log databases that could not be read. */
export async function readTraffic(
  { db, env }: { db: Db; env: object },
  now: number,
): Promise<{ accounts: AccountTraffic[]; unknown: string[] }> {
  const unknown = new Set<string>();
  const all: AccountTraffic[] = [];
  for (let after = ""; ; ) {
    const accounts = await accountsAfter(db, after, accountsAtOnce);
    for (const [store, own] of Map.groupBy(accounts, ({ logWriter }) => logWriter)) {
      try {
        all.push(...(await trafficOf(db, activityDatabase(env, store), own, now)));
      } catch (error) {
        console.error(`cannot read the traffic in ${store} for the operator:`, messagesOf(error));
        unknown.add(store);
      }
    }
    const last = accounts.at(-1);
    if (!last || accounts.length < accountsAtOnce) return { accounts: all, unknown: [...unknown] };
    after = last.id;
  }
}

interface Sums {
  id: string;
  isRecent: number;
  requests: number;
  errors: number;
  limited: number;
}

async function trafficOf(db: Db, activity: D1Database, accounts: readonly Account[], now: number): Promise<AccountTraffic[]> {
  const ids = JSON.stringify(accounts.map(({ id }) => id));
  const yesterday = dayStart(now) - dayMs;
  const [days, hour] = await activity.batch([
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
  const used = (hour?.results ?? []) as { id: string; keyId: string; counted: number }[];
  const usedBy = Map.groupBy(used, ({ id }) => id);
  const sumsOf = Map.groupBy((days?.results ?? []) as Sums[], ({ id }) => id);
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
    const sums = sumsOf.get(id) ?? [];
    const recent = sums.find(({ isRecent }) => isRecent === 1);
    const [nearest] = (usedBy.get(id) ?? [])
      .map(({ keyId, counted }) => ({ keyId, percent: (100 * counted) / (limits.get(keyId) ?? Number.POSITIVE_INFINITY) }))
      .toSorted((one, other) => other.percent - one.percent);
    return {
      id,
      name,
      isSuspended: suspendedAt !== null,
      requests: recent?.requests ?? 0,
      errors: recent?.errors ?? 0,
      limited: recent?.limited ?? 0,
      before: sums.find(({ isRecent }) => isRecent === 0)?.requests ?? 0,
      usedPercent: nearest?.percent ?? 0,
      keyId: nearest?.keyId ?? null,
      storedBytes: storedBy.get(id) ?? 0,
      quotaBytes: storageQuotaBytes ?? defaultQuotaBytes,
    };
  });
}

async function limitsOf(db: Db, keyIds: readonly string[]): Promise<Map<string, number>> {
  const rows = await db.all<{ id: string; hourly: number }>(
    sql`SELECT id, hourly_limit AS hourly FROM api_keys WHERE id IN (SELECT value FROM json_each(${JSON.stringify(keyIds)}))`,
  );
  return new Map(rows.map(({ id, hourly }) => [id, hourly]));
}
