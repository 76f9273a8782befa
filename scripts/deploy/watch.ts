import { setTimeout as sleep } from "node:timers/promises";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { connectToOperator, type OperatorClient } from "../operator-client.ts";
import type { Deployment } from "./deployment.ts";

// Asks a version for its health, and compares the errors of a new version with those of the previous one.

type Target = Pick<Deployment, "worker" | "origin">;

interface Health {
  status: string;
  releaseId?: string;
  output?: string;
  checks?: Record<string, { status: string }[]>;
}

/** Returns whether a version is not healthy. A deploy attaches cron again, so it must not wait for a cron that is dead. */
function isFailing({ status, checks }: Health): boolean {
  if (status !== "fail" || checks === undefined) return status === "fail";
  return Object.entries(checks).some(([name, results]) => name !== "cron:jobs" && results.some((each) => each.status === "fail"));
}

/** Asks `/health` at the address of a Worker. `version`: the version to ask, even if it has only a share of the requests. */
export async function healthOf({ worker, origin }: Target, version?: string): Promise<Health & { httpStatus: number }> {
  const response = await fetch(`${origin}/health`, {
    headers: version === undefined ? {} : { "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"` },
    signal: AbortSignal.timeout(10_000),
    redirect: "manual",
  });
  return { ...((await response.json()) as Health), httpStatus: response.status };
}

/** Returns null if a version responds and is healthy, otherwise what is wrong. */
async function healthProblem(target: Target, version: string): Promise<string | null> {
  try {
    const health = await healthOf(target, version);
    if (health.releaseId !== version) return `it responded with ${health.httpStatus} as ${health.releaseId}`;
    return isFailing(health) ? `it responded with ${health.httpStatus}: ${health.output ?? health.status}` : null;
  } catch (error) {
    return ((error as Error).cause as Error | undefined)?.message || (error as Error).message;
  }
}

const pauseMs = 2000;
const pause = (ms: number, signal?: AbortSignal) => sleep(ms, undefined, signal && { signal }).catch(() => {});

/** Returns whether one of these versions responds at the address of the Worker. Otherwise, nobody could watch a new version there. */
export async function isServing(target: Target, versions: readonly string[]): Promise<boolean> {
  for (let attempt = 0; attempt < 3; attempt++) {
    if (attempt > 0) await pause(pauseMs);
    const found = await healthOf(target).catch(() => null);
    if (found?.releaseId !== undefined && versions.includes(found.releaseId)) return true;
  }
  return false;
}

/** Waits until a version responds and is healthy. Throws `CommandError` with the last problem after `timeoutMs` milliseconds. */
export async function waitForVersion(target: Target, version: string, timeoutMs = 300_000, signal?: AbortSignal): Promise<void> {
  let problem: string | null = "no response";
  for (
    const until = Date.now() + timeoutMs;
    Date.now() < until && !signal?.aborted;
    await pause(Math.min(pauseMs, timeoutMs / 4), signal)
  ) {
    problem = await healthProblem(target, version);
    if (problem === null) return;
  }
  if (signal?.aborted) throw new CommandError("failed", "The deploy was interrupted.");
  throw new CommandError("unreachable", `${target.origin}/health did not respond as ${version} within ${timeoutMs / 1000} s: ${problem}.`);
}

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

const counter = /^dvo_version_requests_total\{version="([^"]+)",outcome="(\w+)",writer="[^"]*"\} (\d+)$/gm;

/** Reads from `/metrics` what each version has served, or returns the error. */
async function readServed(client: OperatorClient): Promise<Map<string, Served> | Error> {
  try {
    const served = new Map<string, Served>();
    for (const [, version = "", outcome, count] of (await client.metrics()).matchAll(counter)) {
      const { requests, failed } = served.get(version) ?? { requests: 0, failed: 0 };
      served.set(version, { requests: requests + Number(count), failed: failed + (outcome === "failed" ? Number(count) : 0) });
    }
    return served;
  } catch (error) {
    return error as Error;
  }
}

/** Returns a client for the metrics of a Worker, or null if this machine has no token for it. Throws `CommandError` if the Worker refuses the token. */
export async function connectToMetrics({ origin }: Target): Promise<OperatorClient | null> {
  let client: OperatorClient;
  try {
    client = connectToOperator(origin ?? undefined);
  } catch {
    return null;
  }
  const found = await readServed(client);
  if (found instanceof CommandError && found.exitCode === exitCodes.refused)
    throw new CommandError(
      "refused",
      `Nothing is done. Nobody could watch the errors of the new version: ${found.message} Set OPERATOR_TOKEN to a token with the scope metrics:read. To deploy without watching, use --watch 0.`,
    );
  return client;
}

const watchPauseMs = 5000;
/** A version may miss a single response, for example while its first isolates start. */
const maxMisses = 3;

/**
 * Watches a new version for `seconds` seconds, beside the previous one. Returns what was seen of its errors as a sentence. Throws `CommandError` if the new
 * version is worse, or if nobody can say. Without a client, watches only the health. Returns early if `signal` is aborted.
 */
export async function watchVersion(
  target: Target,
  { fresh, previous }: { fresh: string; previous: string },
  seconds: number,
  client: OperatorClient | null,
  signal: AbortSignal,
): Promise<string> {
  const unknown = (why: string) => `Its errors are unknown, because ${why}.`;
  if (seconds === 0) return unknown("it was not watched");
  let [misses, before, seen]: [number, Map<string, Served> | null, string | null] = [0, null, null];
  for (const until = Date.now() + 1000 * seconds; ; await pause(Math.min(watchPauseMs, Math.max(until - Date.now(), 100)), signal)) {
    const [problem, now] = await Promise.all([healthProblem(target, fresh), client && readServed(client)]);
    misses = problem === null ? 0 : misses + 1;
    if (misses === maxMisses) throw new CommandError("unreachable", `/health of the new version failed ${misses} times: ${problem}.`);
    // A single response can be missing. The comparison then begins with the next one.
    if (now instanceof Map && before === null) before = now;
    else if (now instanceof Map) {
      const served = (version: string): Served => ({
        requests: (now.get(version)?.requests ?? 0) - (before?.get(version)?.requests ?? 0),
        failed: (now.get(version)?.failed ?? 0) - (before?.get(version)?.failed ?? 0),
      });
      const [ofFresh, ofPrevious] = [served(fresh), served(previous)];
      seen = `It served ${ofFresh.requests} requests, ${ofFresh.failed} with a 5xx status. The previous version served ${ofPrevious.requests}, ${ofPrevious.failed} with a 5xx status.`;
      if (isWorse(ofFresh, ofPrevious)) throw new CommandError("unreachable", `It is worse than the previous version. ${seen}`);
    }
    if (signal.aborted || Date.now() >= until) break;
  }
  if (client === null) return unknown("this machine has no token for /metrics. Only /health was watched");
  if (seen === null && !signal.aborted) throw new CommandError("unreachable", unknown("/metrics could not be read"));
  return seen ?? "";
}
