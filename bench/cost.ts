import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { dayMs, hourMs, hourStart, minuteMs, secondMs } from "../src/time/clock.ts";
import { cpuMsOf } from "./load.ts";
import { prepare, startNaive, unlimited } from "./variants.ts";
import { bundle, type Served, serve } from "./workerd.ts";
import type { counts } from "./workers/counting.ts";

type Counts = typeof counts;

const keys = 64;
const ratePerKey = 1.4;
const rate = keys * ratePerKey;
const writers = 4;
const warmUpMs = 10 * secondMs;
/** The wait for pending writes of buffers and log writers, in milliseconds. */
const settledMs = 2 * secondMs;
/**
 * The duration of the measurement, in minutes. The measurement lasts as long as the time between two cuts of a log writer. The measurement therefore
 * includes one cut per account.
 */
const minutes = 5;

/**
 * Prices on Cloudflare's paid plan in dollars, for usage above the included amounts (November 2026):
 * https://developers.cloudflare.com/workers/platform/pricing/
 */
const prices = {
  request: 0.3e-6,
  cpuMs: 0.02e-6,
  objectCall: 0.15e-6,
  objectRow: 1e-6,
  objectGbSecond: 12.5e-6,
  rowWritten: 1e-6,
  rowRead: 0.001e-6,
};
const objectGb = 0.128;

export interface Cost {
  name: string;
  /**
   * Calls to Durable Objects per 1,000 requests. All counts in this interface are per 1,000 requests. The counts include the work of cuts and
   * retention.
   */
  objectCalls: number;
  objectRows: number;
  statements: number;
  rowsWritten: number;
  rowsRead: number;
  /**
   * CPU time of the Worker and its Durable Objects, in milliseconds per request. CPU time of D1 is excluded, because D1 is not billed by CPU time.
   */
  cpuMs: number;
  dollarsPerMillion: number;
}

/**
 * Measures the cost of requests with 64 keys. Each key has 1.4 requests per second and its own isolate. The cost includes the cron job that
 * runs every minute. The cost also includes the cuts and retention of the measured requests. The first ten seconds are not measured,
 * because the isolates are still warming up.
 */
export async function measureCost(folder: string): Promise<Cost[]> {
  const secrets = await prepare(join(folder, "ours"), Array<number>(keys).fill(unlimited));
  const ours = await serve(
    bundle("bench/workers/counted.ts", join(folder, "ours"), { defines: ["LOCAL_BUILD:false", "OPEN_OVERVIEW:false"] }),
    join(folder, "ours", "state"),
    { isolates: keys },
  );
  const naive = await startNaive(join(folder, "naive"), "counted-naive");
  try {
    const cron = (at: number) => fetch(`${ours.url}/cron?at=${at}`);
    const oursCost = await costOf("ours", ours, secrets, {
      path: "/api/v1/me",
      objectsAlwaysActive: writers,
      everyMinute: () => cron(Date.now()),
      cut: () => fetch(`${ours.url}/flush`),
      retain: async () => {
        const hour = hourStart(Date.now()) + hourMs;
        // Segments are deleted after 32 days, hourly totals after 62 days, and daily totals after 400 days.
        for (const days of [33, 63, 401]) await cron(hour + days * dayMs);
      },
    });
    const naiveCost = await costOf("naive", naive.served, naive.keys, {
      path: "/me",
      objectsAlwaysActive: 0,
      everyMinute: async () => {},
      cut: async () => {},
      retain: () => fetch(`${naive.served.url}/retain`, { method: "POST" }),
    });
    return [oursCost, naiveCost];
  } finally {
    await ours.stop();
    await naive.served.stop();
  }
}

interface Way {
  path: string;
  /** The number of Durable Objects that are billed all the time. At this request rate, these objects never become idle. */
  objectsAlwaysActive: number;
  everyMinute: () => Promise<unknown>;
  cut: () => Promise<unknown>;
  retain: () => Promise<unknown>;
}

async function costOf(
  name: string,
  served: Served,
  secrets: string[],
  { path, objectsAlwaysActive, everyMinute, cut, retain }: Way,
): Promise<Cost> {
  const targets = secrets.map((secret, index) => ({ url: (served.urls[index % served.urls.length] ?? "") + path, secret }));
  const warmUp = await paceEach(targets, warmUpMs);
  await sleep(settledMs);
  const before = await countsOf(served);
  const cpuBefore = cpuMsOf([served.pid]);
  let requests = 0;
  for (let minute = 0; minute < minutes; minute++) {
    requests += await paceEach(targets, minuteMs);
    await everyMinute();
    console.log(`cost: minute ${minute + 1} of ${minutes}, ${name}`);
  }
  await sleep(settledMs);
  const cpu = (cpuMsOf([served.pid]) - cpuBefore) / requests;
  await cut();
  const meanwhile = await countsOf(served);
  await retain();
  const after = await countsOf(served);
  // Retention also deletes the entries of the warm-up requests.
  const per = (count: keyof Counts) =>
    (meanwhile[count] - before[count]) / requests + (after[count] - meanwhile[count]) / (requests + warmUp);
  const dollars =
    prices.request +
    prices.cpuMs * cpu +
    // A guard is billed while it serves a call. The formula charges each call for the CPU time of a whole request. This amount is an upper
    // bound. Log writers are billed all the time.
    per("objectCalls") * (prices.objectCall + prices.objectGbSecond * objectGb * (cpu / 1000)) +
    (objectsAlwaysActive * objectGb * prices.objectGbSecond) / rate +
    per("objectRows") * prices.objectRow +
    per("rowsWritten") * prices.rowWritten +
    per("rowsRead") * prices.rowRead;
  return {
    name,
    objectCalls: 1000 * per("objectCalls"),
    objectRows: 1000 * per("objectRows"),
    statements: 1000 * per("statements"),
    rowsWritten: 1000 * per("rowsWritten"),
    rowsRead: 1000 * per("rowsRead"),
    cpuMs: cpu,
    dollarsPerMillion: dollars * 1e6,
  };
}

/**
 * Sends requests with each key to the isolate of that key, at random times. The average rate is 1.4 requests per second for each key. Returns
 * the number of responses with status 200. Throws if a response has a status other than 200.
 */
async function paceEach(targets: readonly { url: string; secret: string }[], forMs: number): Promise<number> {
  const endsAt = Date.now() + forMs;
  let answered = 0;
  const each = targets.map(async ({ url, secret }) => {
    for (;;) {
      await sleep((-Math.log(1 - Math.random()) * 1000) / ratePerKey);
      if (Date.now() >= endsAt) return;
      const answer = await fetch(url, { headers: { Authorization: `Bearer ${secret}`, "CF-Connecting-IP": "198.51.100.7" } });
      await answer.arrayBuffer();
      if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`);
      answered++;
    }
  });
  await Promise.all(each);
  return answered;
}

/** Returns each count, summed over all isolates. */
async function countsOf(served: Served): Promise<Counts> {
  const all = await Promise.all(served.urls.map(async (url) => (await (await fetch(`${url}/counts`)).json()) as Counts));
  const sum = { ...all[0] } as Counts;
  for (const counts of all.slice(1)) for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] += counts[name];
  return sum;
}
