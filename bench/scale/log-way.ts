import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { prepare } from "../variants.ts";
import { bundle, serve } from "../workerd.ts";
import { tell } from "./accounts.ts";
import { type SlowD1, startSlowD1 } from "./slow-d1.ts";

const load = { isolates: 1000, rate: 3000, accounts: 300, others: 0 };
const seconds = 60;
/** The time between two cuts, in milliseconds. The product cuts every five minutes. */
const cutEveryMs = 15_000;
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
  /** The time in milliseconds that the log writers need to store all waiting cuts. The time starts at the end of the load and of the disturbance. */
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
  for (const [index, { name, begin }] of disturbances.entries())
    ways.push(await withLog(join(folder, String(index)), (url, d1) => run(url, d1, { name, begin })));
  return ways;
}

async function run(url: string, d1: SlowD1, { name, begin }: { name: string; begin: (d1: SlowD1) => void }): Promise<LogWay> {
  begin(d1);
  d1.busyShare();
  const running = tell(url, "run", { ...load, seconds }) as Promise<Ran>;
  let isOver = false;
  const cutting = (async () => {
    while (!isOver) {
      await sleep(cutEveryMs);
      await tell(url, "cut", null);
    }
  })();
  const { sent, visibleMs } = await running;
  isOver = true;
  await cutting;
  const busyShare = d1.busyShare();
  Object.assign(d1, { others: 0, isAway: false });
  const drainedMs = await untilDrained(url);
  const stored = (await tell(url, "stored", load.accounts)) as number;
  console.log(`scale: the log, ${name}: ${stored} of ${sent} stored`);
  return { name, sent, stored, p50: quantile(visibleMs, 0.5), p99: quantile(visibleMs, 0.99), busyShare, drainedMs };
}

/** The result of a run. `visibleMs`: for some entries, the milliseconds from the request until a reader saw the entry. */
interface Ran {
  sent: number;
  visibleMs: number[];
  searchMs: number[];
}

export interface BusyAccount {
  name: string;
  /** The time until the entries of other accounts are visible, in milliseconds. */
  visibleP99: number;
  /** The time of a search in the log writer for one entry of another account, in milliseconds. */
  searchP99: number;
  /** The time until the entries of the busy account are visible, in milliseconds. */
  ownVisibleP99: number;
}

/**
 * Measures how one account with 2,000 requests per second from 500 isolates affects the other accounts of its log writer. The other accounts
 * have ten requests per second together.
 */
export async function measureBusyAccount(folder: string): Promise<BusyAccount[]> {
  const measured: BusyAccount[] = [];
  for (const [name, rate] of [
    ["idle", 1],
    ["2,000 requests/s", 2000],
  ] as const) {
    const busy = { isolates: 500, rate, accounts: 1, seconds: 40 };
    const others = await withLog(join(folder, `${rate}`), (url) => tell(url, "run", { ...busy, others: 4 }) as Promise<Ran>);
    const own = await withLog(join(folder, `${rate}-own`), (url) => tell(url, "run", { ...busy, others: 0 }) as Promise<Ran>);
    const [visibleP99, searchP99] = [quantile(others.visibleMs, 0.99), quantile(others.searchMs, 0.99)];
    measured.push({ name, visibleP99, searchP99, ownVisibleP99: quantile(own.visibleMs, 0.99) });
    console.log(`scale: one account, ${name}`);
  }
  return measured;
}

/** Starts the Worker of simulated isolates behind a slow D1. */
async function withLog<Result>(folder: string, work: (url: string, d1: SlowD1) => Promise<Result>): Promise<Result> {
  await prepare(folder, []);
  let d1: SlowD1 | undefined;
  const through = async ({ main, activity }: { main: number; activity: number }) => {
    d1 = await startSlowD1(activity);
    return { main, activity: d1.port };
  };
  const served = await serve(bundle("bench/workers/isolates.ts", join(folder, "isolates")), join(folder, "state"), { through });
  if (!d1) throw new Error("nothing stands before D1");
  try {
    return await work(served.url, d1);
  } finally {
    await served.stop();
    await d1.stop();
  }
}

const quantile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(share * values.length)] ?? Number.NaN;

/**
 * Waits until the log writers have stored all waiting cuts. Returns the elapsed time in milliseconds. If the wait takes more than three minutes,
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
