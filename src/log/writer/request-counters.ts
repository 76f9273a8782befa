import type { Entry } from "../entry.ts";

// Counters of the requests in the log, for `/metrics`. They survive a deploy, and never decrease.

/** The kinds of requests that are counted separately. `verified`: requests of your own API, which verify or forward auth has admitted or denied. */
export const routeClasses = ["read", "write", "verified"] as const;
export type RouteClass = (typeof routeClasses)[number];

/** The upper bounds of the buckets of response times, in milliseconds. A last bucket without a bound follows. */
export const bucketsMs = [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000] as const;

export interface ClassCounters {
  /** The number of requests by the first digit of their status. */
  requests: Record<string, number>;
  /** The number of requests by bucket of their response time. The buckets do not overlap. */
  buckets: number[];
  /** The sum of the response times, in milliseconds. */
  durationMs: number;
}

export type RequestCounters = Record<RouteClass, ClassCounters>;

/** What one version of the Worker has served. */
export interface VersionCounters {
  requests: number;
  /** The number of requests with a 5xx status. */
  failed: number;
  /** When the version last served a request, in milliseconds since the epoch. */
  at: number;
}

export type Versions = Record<string, VersionCounters>;

/** The number of versions whose counts are kept. */
const maxVersions = 6;

const noneCounted = (): ClassCounters => ({ requests: {}, buckets: Array.from({ length: bucketsMs.length + 1 }, () => 0), durationMs: 0 });

export const noRequests = (): RequestCounters => ({ read: noneCounted(), write: noneCounted(), verified: noneCounted() });

const apiPrefix = "/api/v1/";
const readMethods = new Set(["GET", "HEAD", "OPTIONS"]);

const classOf = ({ route, method }: Pick<Entry, "route" | "method">): RouteClass =>
  !route.startsWith(apiPrefix) ? "verified" : readMethods.has(method) ? "read" : "write";

/** Requests that failed in the same way, and have no entry. */
export interface Failures extends Pick<Entry, "method" | "route"> {
  /** A status of 500 or above, or 403 for a call of forward auth whose options were not valid. */
  status: number;
  count: number;
}

/** Adds the requests of an entry. An entry whose response was not reported is left out. */
export function addCounters(served: RequestCounters, entry: Pick<Entry, "method" | "route" | "status" | "durationMs" | "count">): void {
  const { status, durationMs, count } = entry;
  if (status === null) return;
  const { requests, buckets, ...sums } = served[classOf(entry)];
  const digit = String(Math.floor(status / 100));
  requests[digit] = (requests[digit] ?? 0) + count;
  if (durationMs === null) return;
  const found = bucketsMs.findIndex((bound) => durationMs <= bound);
  const bucket = found === -1 ? bucketsMs.length : found;
  buckets[bucket] = (buckets[bucket] ?? 0) + count;
  served[classOf(entry)].durationMs = sums.durationMs + count * durationMs;
}

export function addAllCounters(to: RequestCounters, more: RequestCounters): void {
  for (const name of routeClasses) {
    const [sums, { requests, buckets, durationMs }] = [to[name], more[name]];
    for (const [digit, count] of Object.entries(requests)) sums.requests[digit] = (sums.requests[digit] ?? 0) + count;
    sums.buckets = sums.buckets.map((count, bucket) => count + (buckets[bucket] ?? 0));
    sums.durationMs += durationMs;
  }
}

/** Adds entries that one version has sent. Keeps the versions that served a request last. */
export function addVersion(
  versions: Versions,
  version: string,
  entries: readonly Pick<Entry, "status" | "count">[],
  now: number,
): Versions {
  const before = versions[version] ?? { requests: 0, failed: 0, at: now };
  let { requests, failed } = before;
  for (const { status, count } of entries) {
    if (status === null) continue;
    requests += count;
    if (status >= 500) failed += count;
  }
  const all = Object.entries({ ...versions, [version]: { requests, failed, at: now } });
  return Object.fromEntries(all.toSorted(([, a], [, b]) => b.at - a.at).slice(0, maxVersions));
}
