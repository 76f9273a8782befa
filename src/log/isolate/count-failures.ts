import { messagesOf } from "../../db/failures.ts";
import { knownMethod } from "../../lib/net/http-method.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import type { Failures } from "../writer/request-counters.ts";
import { allWriters, type WriterEnv, writerAt } from "../writers.ts";

// Counts requests that failed before their key was known, for example because its guard does not respond. No account has them in its log, but `/metrics`, the
// alerts and a gradual deploy must see them.

const collectMs = secondMs;
const timeoutMs = 3 * secondMs;
/** The maximum number of different failures that wait. Further ones are counted without their route. */
const maxKinds = 50;

const otherRoutes = "_OTHER";

const waiting = new Map<string, Failures>();
/** When this isolate began to collect the failures that wait, in milliseconds since the epoch. */
let collectingSince = Number.NEGATIVE_INFINITY;
/** A request that was flushed off no longer sends what it has collected. After this time, another request does. */
const staleMs = 5 * secondMs;

/** Counts a failed request. This isolate sends its counts once a second. `waitUntil` receives the promise of this background work. */
export function countFailure(env: WriterEnv, waitUntil: (work: Promise<void>) => void, failure: Omit<Failures, "count">): void {
  const method = knownMethod(failure.method);
  const nameOf = (route: string) => `${method} ${route} ${failure.status}`;
  const isKnown = waiting.has(nameOf(failure.route)) || waiting.size < maxKinds;
  const route = isKnown ? failure.route : otherRoutes;
  const known = waiting.get(nameOf(route));
  if (known) known.count++;
  else waiting.set(nameOf(route), { ...failure, method, route, count: 1 });
  const now = Date.now();
  if (Math.abs(now - collectingSince) < staleMs) return;
  collectingSince = now;
  waitUntil(send(env));
}

/** Gives the counts to the first log writer that responds. If none responds, the counts are lost. */
async function send(env: WriterEnv): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, collectMs));
  collectingSince = Number.NEGATIVE_INFINITY;
  const failures = [...waiting.values()];
  waiting.clear();
  for (const logWriter of allWriters(env))
    try {
      await withDeadline(writerAt(env, logWriter).countFailures(failures, env.VERSION?.id ?? ""), timeoutMs, "Counting failed requests");
      return;
    } catch (error) {
      console.error(`the log writer ${logWriter} did not count ${failures.length} kinds of failed requests:`, messagesOf(error));
    }
}
