import { env } from "cloudflare:workers";

// Reads rows of the request log, of the usage roll-ups and of the audit log.

export type ActivityRow = Record<string, string | number | null> & { id: string; ip: string | null };

/** Returns the stored log entries of an account, sorted by id. */
export async function readActivityRows(accountId: string): Promise<ActivityRow[]> {
  const { results } = await env.ACTIVITY_0.prepare("SELECT * FROM activity WHERE account_id = ? ORDER BY id")
    .bind(accountId)
    .all<ActivityRow>();
  return results;
}

/** Returns the ids of the stored log entries of an account, sorted. */
export const readActivityIds = async (accountId: string): Promise<string[]> => (await readActivityRows(accountId)).map(({ id }) => id);

/** Returns the number of stored log entries of an account. */
export async function countActivityRows(accountId: string, database: D1Database = env.ACTIVITY_0): Promise<number> {
  const count = await database
    .prepare("SELECT count(*) AS count FROM activity WHERE account_id = ?")
    .bind(accountId)
    .first<number>("count");
  return count ?? 0;
}

/** Returns the stored log entry of a request, or null if there is none. */
export const readActivityRow = (requestId: string): Promise<ActivityRow | null> =>
  env.ACTIVITY_0.prepare("SELECT * FROM activity WHERE id = ?").bind(requestId).first<ActivityRow>();

/** Returns the number of requests in the hourly roll-ups of an account, or null if the account has no roll-ups. */
export const sumHourlyRequests = (accountId: string): Promise<number | null> =>
  env.ACTIVITY_0.prepare("SELECT sum(requests) AS requests FROM usage_hours WHERE account_id = ?")
    .bind(accountId)
    .first<number>("requests");

/** Returns the start times of an account's dirty buckets, oldest first, in milliseconds since the epoch. */
export async function readDirtyBuckets(accountId: string): Promise<number[]> {
  const { results } = await env.ACTIVITY_0.prepare("SELECT start FROM stale_slices WHERE account_id = ? ORDER BY start")
    .bind(accountId)
    .all<{ start: number }>();
  return results.map(({ start }) => start);
}

/** Returns the number of an account's audit log entries. If `action` is given, counts only the entries with this action. */
export async function countAuditRows(accountId: string, action: string | null = null): Promise<number> {
  const count = await env.DB.prepare("SELECT count(*) AS count FROM audit WHERE account_id = ?1 AND (?2 IS NULL OR action = ?2)")
    .bind(accountId, action)
    .first<number>("count");
  return count ?? 0;
}
