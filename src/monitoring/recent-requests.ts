import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { allWriters, readCounts, type WriterEnv } from "../log/writers.ts";
import { readAlerting } from "./alerting.ts";
import { sampled } from "./alerts.ts";
import type { RecentRequests } from "./deployment-status.ts";

const timeoutMs = 5 * secondMs;

/** Returns the requests that this Worker has served and those that failed, since its first deploy. Returns null if a log writer does not respond. */
export async function countRequests(env: WriterEnv): Promise<RecentRequests | null> {
  const sums = { requests: 0, failed: 0 };
  const counts = await readCounts(env);
  if (counts.size < allWriters(env).length) return null;
  for (const { served } of counts.values())
    for (const { requests } of [served.read, served.write]) {
      sums.failed += requests["5"] ?? 0;
      for (const count of Object.values(requests)) sums.requests += count;
    }
  return sums;
}

/** Returns the requests since a run of cron in the last five minutes, or null if there was none, or if they cannot be counted. */
export async function readRecentRequests(db: Db, env: WriterEnv, now: number): Promise<RecentRequests | null> {
  try {
    const before = withDeadline(readAlerting(db), timeoutMs, "Asking for earlier counts of requests");
    const [earlier, counted] = await Promise.all([before, countRequests(env)]);
    return sampled(earlier, counted, now).recent;
  } catch (error) {
    console.error("cannot read the requests of the last few minutes:", messagesOf(error));
    return null;
  }
}
