import { and, desc, eq, gte } from "drizzle-orm";
import type { LogReadContext } from "../accounts/actor.ts";
import { idBound, timeOfId } from "../ids/ids.ts";
import { activity } from "./log-tables.ts";
import { entriesScannedAtOnce } from "./read-activity.ts";

/** Figures about the recent requests of a key. */
export interface KeyTraffic {
  /**
   * The start of the period that was read, in milliseconds since the epoch. If the account has more than 10,000 entries in the requested
   * period, only the latest part of the period was read.
   */
  from: number;
  requests: number;
  /** The number of requests with the key's current secret, and the number of requests with older secrets. */
  bySecret: { current: number; previous: number };
  byRoute: { method: string; route: string; requests: number }[];
}

/**
 * Counts the requests that a key has made since the given time: in total, by secret and by operation. The busiest operation comes first.
 * Reads at most the latest 10,000 entries of the account.
 */
export async function readKeyTraffic({ activity: log, actor }: LogReadContext, keyId: string, since: number): Promise<KeyTraffic> {
  const rows = await log
    .select({
      id: activity.id,
      keyId: activity.keyId,
      method: activity.method,
      route: activity.route,
      count: activity.count,
      secret: activity.secret,
    })
    .from(activity)
    .where(and(eq(activity.accountId, actor.accountId), gte(activity.id, idBound("req", since))))
    .orderBy(desc(activity.id))
    .limit(entriesScannedAtOnce);
  const own = rows.filter((row) => row.keyId === keyId);
  const last = rows.at(-1);
  const byRoute = [...Map.groupBy(own, ({ method, route }) => `${method} ${route}`).values()].flatMap((group) => {
    const [first] = group;
    return first ? [{ method: first.method, route: first.route, requests: sum(group) }] : [];
  });
  return {
    from: rows.length === entriesScannedAtOnce && last ? timeOfId(last.id) : since,
    requests: sum(own),
    bySecret: {
      current: sum(own.filter(({ secret }) => secret !== "previous")),
      previous: sum(own.filter(({ secret }) => secret === "previous")),
    },
    byRoute: byRoute.toSorted((a, b) => b.requests - a.requests),
  };
}

const sum = (entries: readonly { count: number }[]) => entries.reduce((total, { count }) => total + count, 0);
