import { setTimeout as sleep } from "node:timers/promises";
import { CommandError } from "./exit-codes.ts";

const pauseMs = 2000;

/**
 * Waits until `/health` reports the given version and a status other than `fail`. Returns the status. If the wait takes longer than
 * `timeoutMs` milliseconds, throws `CommandError`. The error message describes the last response or failure.
 */
export async function waitForVersion(origin: string, versionId: string, timeoutMs: number): Promise<string> {
  let seen = "no response";
  for (const until = Date.now() + timeoutMs; Date.now() < until; await sleep(Math.min(pauseMs, timeoutMs / 4))) {
    try {
      const response = await fetch(`${origin}/health`, { signal: AbortSignal.timeout(10_000), redirect: "manual" });
      const health = (await response.json()) as { status: string; releaseId?: string; output?: string };
      if (health.releaseId === versionId && health.status !== "fail") return health.status;
      seen = `it responded with ${response.status} as ${health.releaseId}: ${health.output ?? health.status}`;
    } catch (error) {
      seen = ((error as Error).cause as Error | undefined)?.message || (error as Error).message;
    }
  }
  throw new CommandError("unreachable", `${origin}/health did not respond as ${versionId} within ${timeoutMs / 1000} s: ${seen}.`);
}
