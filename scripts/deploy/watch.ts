import { connectToOperator } from "../operator-client.ts";
import type { Deployment } from "./deployment.ts";
import { askHealth, pause } from "./health.ts";

// Watches a new version while it gets a share of the requests.

/** The requests that a version has served, and those of them that failed with a 5xx status. */
export interface Served {
  requests: number;
  failed: number;
}

/** Fewer failed requests than this say nothing about a version. */
const fewFailures = 5;
/** A version that fails less often than this is never worse. */
const fewPercent = 1;

/** Returns whether a new version fails more often than the previous one, during the same time. */
export function isWorse(fresh: Served, previous: Served): boolean {
  const share = ({ requests, failed }: Served) => (requests === 0 ? 0 : failed / requests);
  return fresh.failed >= fewFailures && share(fresh) > fewPercent / 100 && share(fresh) > 2 * share(previous);
}

const pauseMs = 5000;
/** A version may miss a single response, for example while its first isolates start. */
const maxMisses = 3;

/** Reads from `/metrics` what each version has served. Returns null if no token is there, or if the metrics cannot be read. */
async function readServed({ origin }: Deployment): Promise<Map<string, Served> | null> {
  try {
    const text = await connectToOperator(origin ?? undefined).metrics();
    const served = new Map<string, Served>();
    for (const [, version = "", outcome, count] of text.matchAll(
      /^dvo_version_requests_total\{version="([^"]+)",outcome="(\w+)",writer="[^"]*"\} (\d+)$/gm,
    )) {
      const before = served.get(version) ?? { requests: 0, failed: 0 };
      const requests = before.requests + Number(count);
      served.set(version, { requests, failed: before.failed + (outcome === "failed" ? Number(count) : 0) });
    }
    return served;
  } catch {
    return null;
  }
}

const since = (before: Served | undefined, now: Served | undefined): Served => ({
  requests: (now?.requests ?? 0) - (before?.requests ?? 0),
  failed: (now?.failed ?? 0) - (before?.failed ?? 0),
});

/** What was seen of a version. */
export interface Watched {
  /** Why the version must not get all requests, or null. */
  problem: string | null;
  /** What each version served meanwhile, or null if this is not known. */
  fresh: Served | null;
  previous: Served | null;
}

/** Watches a version for `seconds` seconds, until it is clearly worse than the previous version, or until `signal` is aborted. */
export async function watchVersion(
  deployment: Deployment,
  version: string,
  previousVersion: string,
  seconds: number,
  signal: AbortSignal,
): Promise<Watched> {
  const before = await readServed(deployment);
  const watched: Watched = { problem: null, fresh: null, previous: null };
  let misses = 0;
  for (const until = Date.now() + 1000 * seconds; ; await pause(Math.min(pauseMs, Math.max(until - Date.now(), 100)), signal)) {
    const [missed, now] = await Promise.all([askHealth(deployment, version, true), before && readServed(deployment)]);
    misses = missed === null ? 0 : misses + 1;
    if (misses === maxMisses) return { ...watched, problem: `/health of the new version failed ${misses} times: ${missed}` };
    if (before && now) {
      watched.fresh = since(before.get(version), now.get(version));
      watched.previous = since(before.get(previousVersion), now.get(previousVersion));
      if (isWorse(watched.fresh, watched.previous))
        return { ...watched, problem: `${watched.fresh.failed} of ${watched.fresh.requests} requests failed with a 5xx status` };
    }
    if (Date.now() >= until || signal.aborted) return watched;
  }
}
