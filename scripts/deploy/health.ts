import { setTimeout as sleep } from "node:timers/promises";
import { CommandError } from "../exit-codes.ts";
import type { Deployment } from "./deployment.ts";

const pauseMs = 2000;
/** The number of times that a deployed version is asked before the deploy believes that it does not respond. */
const servingAttempts = 4;
/** The time that a new version has for its first healthy response, in milliseconds. */
export const healthTimeoutMs = 5 * 60_000;

/** Waits. Returns early if `signal` is aborted. */
export const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { ...(signal && { signal }) }).catch(() => {});

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

type Target = Pick<Deployment, "worker" | "origin">;

/**
 * Asks `/health`. If `isOverridden` is set, asks the given version, even if it gets only a share of the requests. Returns null if the version responds
 * and is healthy, otherwise what is wrong.
 */
export async function askHealth({ worker, origin }: Target, version: string, isOverridden: boolean): Promise<string | null> {
  try {
    const response = await fetch(`${origin}/health`, {
      headers: isOverridden ? { "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"` } : {},
      signal: AbortSignal.timeout(10_000),
      redirect: "manual",
    });
    const health = (await response.json()) as Health;
    if (health.releaseId !== version) return `it responded with ${response.status} as ${health.releaseId}`;
    return isFailing(health) ? `it responded with ${response.status}: ${health.output ?? health.status}` : null;
  } catch (error) {
    return ((error as Error).cause as Error | undefined)?.message || (error as Error).message;
  }
}

/**
 * Returns whether `/health` responds as one of the given versions, healthy or not. If not, the address is not attached to the Worker yet, or nothing
 * works: a new version could not be watched.
 */
export async function isServing({ origin }: Target, versions: readonly string[]): Promise<boolean> {
  for (let asked = 0; asked < servingAttempts; asked++) {
    if (asked > 0) await pause(pauseMs);
    try {
      const response = await fetch(`${origin}/health`, { signal: AbortSignal.timeout(10_000), redirect: "manual" });
      if (versions.includes(((await response.json()) as Health).releaseId ?? "")) return true;
    } catch {
      // A single connection can fail.
    }
  }
  return false;
}

/**
 * Waits until `/health` responds as the given version, with a status other than `fail`. If this takes longer than `timeoutMs` milliseconds,
 * throws `CommandError`. The error message describes the last response or failure. Stops early if `signal` is aborted.
 */
export async function waitForVersion(
  target: Target,
  version: string,
  timeoutMs: number,
  { isOverridden = false, signal }: { isOverridden?: boolean; signal?: AbortSignal } = {},
): Promise<void> {
  let seen: string | null = "no response";
  for (
    const until = Date.now() + timeoutMs;
    Date.now() < until && !signal?.aborted;
    await pause(Math.min(pauseMs, timeoutMs / 4), signal)
  ) {
    seen = await askHealth(target, version, isOverridden);
    if (seen === null) return;
  }
  throw new CommandError("unreachable", `${target.origin}/health did not respond as ${version} within ${timeoutMs / 1000} s: ${seen}.`);
}
