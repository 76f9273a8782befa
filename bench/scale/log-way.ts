import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { prepare } from "../variants.ts";
import { bundle, serve } from "../workerd.ts";
import { type SlowD1, startSlowD1 } from "./slow-d1.ts";

const load = { isolates: 1000, rate: 3000, accounts: 2000 };
const undisturbedMs = 10_000;
const maxDrainMs = 180_000;

export interface LogWay {
  name: string;
  sent: number;
  /** The number of distinct entries that have a row in D1 at the end of the run. */
  stored: number;
  /** The median time from a request until its log row is in D1, in milliseconds. */
  p50: number;
  p99: number;
  /** The share of time in which D1 was busy with the log, from 0 to 1. */
  busyShare: number;
  batchesPerSecond: number;
  /** The time in milliseconds that the log writers need to write all stored entries to D1. The time starts at the end of the disturbance. */
  drainedMs: number;
}

/** A disturbance of D1 under load, with its duration. */
interface Disturbance {
  seconds: number;
  begin(d1: SlowD1): void;
  end(d1: SlowD1): void;
}

const taken: Disturbance = {
  seconds: 60,
  begin(d1) {
    d1.others = 0.9;
  },
  end(d1) {
    d1.others = 0;
  },
};
const away: Disturbance = {
  seconds: 10,
  begin(d1) {
    d1.isAway = true;
  },
  end(d1) {
    d1.isAway = false;
  },
};

/**
 * Measures the path of log entries from simulated isolates, through the log writers, to D1. The local D1 is slowed down to the speed of a
 * deployed D1. The first run is undisturbed. In the second run, other work uses 90 % of D1's time for one minute. In the third run, D1 is
 * unreachable for ten seconds.
 */
export async function measureLogWay(folder: string): Promise<LogWay[]> {
  return [
    await run(join(folder, "quiet"), { name: "undisturbed", seconds: 40 }),
    await run(join(folder, "taken"), { name: "90 % of D1 taken by others for a minute", seconds: 100, disturbance: taken }),
    await run(join(folder, "away"), { name: "D1 away for ten seconds", seconds: 40, disturbance: away }),
  ];
}

async function run(
  folder: string,
  { name, seconds, disturbance }: { name: string; seconds: number; disturbance?: Disturbance },
): Promise<LogWay> {
  await prepare(folder, []);
  let d1: SlowD1 | undefined;
  const through = async ({ main, activity }: { main: number; activity: number }) => {
    d1 = await startSlowD1(activity);
    return { main, activity: d1.port };
  };
  const served = await serve(bundle("bench/workers/isolates.ts", join(folder, "isolates")), join(folder, "state"), { through });
  if (!d1) throw new Error("nothing stands before D1");
  try {
    d1.busyShare();
    const sending = fetch(served.url, { method: "POST", body: JSON.stringify({ ...load, seconds }), signal: AbortSignal.timeout(600_000) });
    const drainedMs = disturbance ? await drainedAfter(disturbance, d1, served.url) : 0;
    const { sent } = (await (await sending).json()) as { sent: number };
    const [busyShare, batchesPerSecond] = [d1.busyShare(), d1.batches / seconds];
    await untilDrained(served.url);
    const latencies = [...d1.arrivals.values()].toSorted((a, b) => a - b);
    const at = (share: number) => latencies[Math.floor(share * latencies.length)] ?? Number.NaN;
    const stored = d1.arrivals.size;
    console.log(`scale: the log, ${name}: ${stored} of ${sent} stored`);
    return { name, sent, stored, p50: at(0.5), p99: at(0.99), busyShare, batchesPerSecond, drainedMs };
  } finally {
    await served.stop();
    await d1.stop();
  }
}

/**
 * Runs a disturbance while the load continues. Returns the time that the log writers then need to write all stored entries to D1, in
 * milliseconds. The time starts at the end of the disturbance.
 */
async function drainedAfter({ seconds, begin, end }: Disturbance, d1: SlowD1, url: string): Promise<number> {
  await sleep(undisturbedMs);
  begin(d1);
  await sleep(1000 * seconds);
  end(d1);
  return untilDrained(url);
}

/**
 * Waits until the log writers have written all their stored entries to D1. Returns the elapsed time in milliseconds. If the wait takes more
 * than three minutes, returns infinity.
 */
async function untilDrained(url: string): Promise<number> {
  for (const from = Date.now(); ; ) {
    const { oldestWaitingAt } = (await (await fetch(url)).json()) as { oldestWaitingAt: number | null };
    if (oldestWaitingAt === null) return Date.now() - from;
    if (Date.now() - from > maxDrainMs) return Number.POSITIVE_INFINITY;
    await sleep(200);
  }
}
