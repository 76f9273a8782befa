import { CommandError, exitCodes } from "../exit-codes.ts";
import { connectToOperator, type OperatorClient } from "../operator-client.ts";
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

/** Returns a client for the Worker, or null if this machine has no token for it. */
function clientOf({ origin }: Pick<Deployment, "origin">): OperatorClient | null {
  try {
    return connectToOperator(origin ?? undefined);
  } catch {
    return null;
  }
}

/** Reads from `/metrics` what each version has served. If the metrics cannot be read, returns the error. */
async function readServed(client: OperatorClient): Promise<Map<string, Served> | Error> {
  try {
    const text = await client.metrics();
    const served = new Map<string, Served>();
    for (const [, version = "", outcome, count] of text.matchAll(
      /^dvo_version_requests_total\{version="([^"]+)",outcome="(\w+)",writer="[^"]*"\} (\d+)$/gm,
    )) {
      const before = served.get(version) ?? { requests: 0, failed: 0 };
      const requests = before.requests + Number(count);
      served.set(version, { requests, failed: before.failed + (outcome === "failed" ? Number(count) : 0) });
    }
    return served;
  } catch (error) {
    return error as Error;
  }
}

/** Throws `CommandError` if the Worker refuses the token of this machine. Nobody could then watch the errors of a new version. */
export async function requireTokenAccepted(deployment: Pick<Deployment, "origin">): Promise<void> {
  const client = clientOf(deployment);
  const found = client && (await readServed(client));
  if (found instanceof CommandError && found.exitCode === exitCodes.refused)
    throw new CommandError(
      "refused",
      `Nothing is done. ${deployment.origin}/metrics refuses the token of this machine, so nobody could watch the errors of the new version: ${found.message} Set OPERATOR_TOKEN to a token with the scope metrics:read. To deploy without watching, use --watch 0.`,
    );
}

const since = (before: Served | undefined, now: Served | undefined): Served => ({
  requests: (now?.requests ?? 0) - (before?.requests ?? 0),
  failed: (now?.failed ?? 0) - (before?.failed ?? 0),
});

/** What was seen of a version. */
export interface Watched {
  /** Why the version must not get all requests, or null. */
  problem: string | null;
  /** What each version served meanwhile, or null if nobody watched errors. */
  fresh: Served | null;
  previous: Served | null;
}

/**
 * Watches a version for `seconds` seconds, until it is clearly worse than the previous version, or until `signal` is aborted. Without a token on this machine,
 * or with 0 seconds, watches only its health.
 */
export async function watchVersion(
  deployment: Pick<Deployment, "worker" | "origin">,
  version: string,
  previousVersion: string,
  seconds: number,
  signal: AbortSignal,
): Promise<Watched> {
  const client = seconds > 0 ? clientOf(deployment) : null;
  let before = client && (await readServed(client));
  const watched: Watched = { problem: null, fresh: null, previous: null };
  let misses = 0;
  for (const until = Date.now() + 1000 * seconds; ; await pause(Math.min(pauseMs, Math.max(until - Date.now(), 100)), signal)) {
    const [missed, now] = await Promise.all([askHealth(deployment, version, true), client && readServed(client)]);
    misses = missed === null ? 0 : misses + 1;
    if (misses === maxMisses) return { ...watched, problem: `/health of the new version failed ${misses} times: ${missed}` };
    // A single response can be missing. The comparison then begins with the next one.
    if (before instanceof Error) before = now;
    else if (before && now instanceof Map) {
      watched.fresh = since(before.get(version), now.get(version));
      watched.previous = since(before.get(previousVersion), now.get(previousVersion));
      if (isWorse(watched.fresh, watched.previous))
        return { ...watched, problem: `${watched.fresh.failed} of ${watched.fresh.requests} requests failed with a 5xx status` };
    }
    if (signal.aborted) return watched;
    if (Date.now() < until) continue;
    if (client && watched.fresh === null)
      watched.problem = `Its errors are unknown, because /metrics could not be read${now instanceof Error ? `: ${now.message}` : ""}`;
    return watched;
  }
}
