import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { quantile } from "../load.ts";
import { prepare } from "../variants.ts";
import { bundle } from "../workerd.ts";
import { tell } from "./accounts.ts";
import { behindSlowD1, type SlowD1 } from "./slow-d1.ts";

const load = { isolates: 1000, rate: 3000, accounts: 300 };
const seconds = 60;
/** The time between two flushes, in milliseconds. The product flushes every five minutes. */
const flushEveryMs = 15_000;
const maxDrainMs = 180_000;

export interface LogWay {
  name: string;
  sent: number;
  /** The number of entries in D1 at the end of the run. */
  stored: number;
  /** The median time from a request until a reader sees its entry, in milliseconds. */
  p50: number;
  p99: number;
  /** The share of time in which D1 was busy with the log, from 0 to 1. */
  busyShare: number;
  /** The time in milliseconds that the log writers need to store all pending flushes. The time starts at the end of the load and of the disturbance. */
  drainedMs: number;
}

/** Disturbances of D1 that last as long as the load. */
const disturbances: { name: string; begin: (d1: SlowD1) => void }[] = [
  { name: "undisturbed", begin: () => {} },
  { name: "90 % of D1 taken by others", begin: (d1) => Object.assign(d1, { others: 0.9 }) },
  { name: "D1 away", begin: (d1) => Object.assign(d1, { isAway: true }) },
];

/**
 * Measures the path of log entries from simulated isolates, through the log writers, to D1. The local D1 is slowed down to the speed of a
 * deployed D1.
 */
export async function measureLogWay(folder: string): Promise<LogWay[]> {
  const ways: LogWay[] = [];
  for (const [index, disturbance] of disturbances.entries()) {
    const own = join(folder, String(index));
    await prepare(own, []);
    const script = bundle("bench/workers/isolates.ts", join(own, "isolates"));
    ways.push(await behindSlowD1(script, join(own, "state"), {}, ({ url }, d1) => run(url, d1, disturbance)));
  }
  return ways;
}

async function run(url: string, d1: SlowD1, { name, begin }: { name: string; begin: (d1: SlowD1) => void }): Promise<LogWay> {
  begin(d1);
  d1.busyShare();
  const running = tell(url, "run", { ...load, seconds }) as Promise<{ sent: number; visibleMs: number[] }>;
  let isOver = false;
  const flushing = (async () => {
    while (!isOver) {
      await sleep(flushEveryMs);
      await tell(url, "flush", null);
    }
  })();
  const { sent, visibleMs } = await running;
  isOver = true;
  await flushing;
  const busyShare = d1.busyShare();
  Object.assign(d1, { others: 0, isAway: false });
  const drainedMs = await untilDrained(url);
  const stored = (await tell(url, "stored", load.accounts)) as number;
  console.log(`scale: the log, ${name}: ${stored} of ${sent} stored`);
  return { name, sent, stored, p50: quantile(visibleMs, 0.5), p99: quantile(visibleMs, 0.99), busyShare, drainedMs };
}

/**
 * Waits until the log writers have stored all pending flushes. Returns the elapsed time in milliseconds. If the wait takes more than three minutes,
 * returns infinity.
 */
async function untilDrained(url: string): Promise<number> {
  for (const from = Date.now(); ; ) {
    const { oldestWaitingAt } = (await tell(url, "writers", null)) as { oldestWaitingAt: number | null };
    if (oldestWaitingAt === null) return Date.now() - from;
    if (Date.now() - from > maxDrainMs) return Number.POSITIVE_INFINITY;
    await sleep(200);
  }
}
