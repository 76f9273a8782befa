import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { objectGb, prices } from "../scripts/bill-figures.ts";
import { dayMs, dayStart, hourMs, hourStart, minuteMs, secondMs } from "../src/lib/time/clock.ts";
import { cpuMsOf } from "./load.ts";
import { tell } from "./scale/accounts.ts";
import { prepare, startNaive, unlimited } from "./variants.ts";
import { bundle, type Served, serve } from "./workerd.ts";
import { noCounts } from "./workers/counting.ts";

type Counts = typeof noCounts;

const busy = { keys: 64, ratePerKey: 1.4 };
const busierRate = 20;
const quiet = { keys: 640, isolates: 64, ratePerKey: 1 / 60 };
const quietAccounts = { accounts: 10_000, keys: 5 };
const quietRate = quietAccounts.accounts * quietAccounts.keys * quiet.ratePerKey;
const writers = 4;
const nameAt = (ratePerKey: number) => `64 keys, ${ratePerKey} requests/s each`;
export const busyName = nameAt(busy.ratePerKey);
const warmUpMs = 10 * secondMs;
/** The wait for pending writes of buffers and log writers, in milliseconds. */
const settledMs = 2 * secondMs;
/**
 * The duration of the measurement, in minutes. The measurement lasts as long as the time between two flushes of a log writer. The measurement therefore
 * includes one flush per account.
 */
const minutesOfFlush = 5;

export interface Cost {
  name: string;
  /** Calls to Durable Objects per 1,000 requests. All counts in this interface are per 1,000 requests. The counts include flushes and retention. */
  objectCalls: number;
  guardRows: number;
  writerRows: number;
  statements: number;
  rowsWritten: number;
  rowsRead: number;
  /**
   * CPU time of the Worker and its Durable Objects, in milliseconds per request. CPU time of D1 is excluded, because D1 is not billed by CPU time.
   */
  cpuMs: number;
  dollarsPerMillion: number;
}

/** What requests need, each as a count per request. */
interface Needs extends Counts {
  cpuMs: number;
}

const noNeeds: Needs = { ...noCounts, cpuMs: 0 };

/**
 * Returns the cost of requests. `objectsPerRate`: the number of Durable Objects that are billed all the time, divided by the number of requests per
 * second.
 */
function costOf(name: string, needs: Needs, objectsPerRate: number): Cost {
  const objectCalls = needs.guardCalls + needs.writerCalls;
  const dollars =
    prices.request +
    prices.cpuMs * needs.cpuMs +
    // A guard is billed while it serves a call. The formula charges each call for the CPU time of a whole request. This amount is an upper
    // bound. Log writers are billed all the time.
    objectCalls * (prices.objectCall + prices.objectGbSecond * objectGb * (needs.cpuMs / 1000)) +
    objectsPerRate * objectGb * prices.objectGbSecond +
    (needs.guardRows + needs.writerRows) * prices.objectRow +
    needs.rowsWritten * prices.rowWritten +
    needs.rowsRead * prices.rowRead;
  return {
    name,
    objectCalls: 1000 * objectCalls,
    guardRows: 1000 * needs.guardRows,
    writerRows: 1000 * needs.writerRows,
    statements: 1000 * needs.statements,
    rowsWritten: 1000 * needs.rowsWritten,
    rowsRead: 1000 * needs.rowsRead,
    cpuMs: needs.cpuMs,
    dollarsPerMillion: dollars * 1e6,
  };
}

/** Measures the cost of requests at three paces, and the cost of the naive design, which is the same at each pace. */
export async function measureCost(folder: string): Promise<Cost[]> {
  const busyCosts = [await measureBusy(join(folder, "busy"), busy.ratePerKey), await measureBusy(join(folder, "busier"), busierRate)];
  return [...busyCosts, await measureQuiet(join(folder, "quiet")), await measureNaive(join(folder, "naive"))];
}

const startCounted = (folder: string, isolates: number) =>
  serve(bundle("bench/workers/counted.ts", folder, { defines: ["LOCAL_BUILD:false", "OPEN_OVERVIEW:false"] }), join(folder, "state"), {
    isolates,
  });

/**
 * Measures the cost of requests with 64 keys. Each key has its own isolate. The cost includes the cron job that
 * runs every minute. The cost also includes the flushes and retention of the measured requests. The first ten seconds are not measured,
 * because the isolates are still warming up.
 */
async function measureBusy(folder: string, ratePerKey: number): Promise<Cost> {
  const secrets = await prepare(folder, Array<number>(busy.keys).fill(unlimited));
  const served = await startCounted(folder, busy.keys);
  const cron = (at: number) => fetch(`${served.url}/cron?at=${at}`);
  try {
    const needs = await needsOf("64 keys", served, secrets, {
      path: "/api/v1/me",
      ratePerKey,
      everyMinute: () => cron(Date.now()),
      flush: () => fetch(`${served.url}/flush`),
      retain: async () => {
        const hour = hourStart(Date.now()) + hourMs;
        // Segments are deleted after 32 days, hourly totals after 62 days, and daily totals after 400 days.
        for (const days of [33, 63, 401]) await cron(hour + days * dayMs);
      },
    });
    return costOf(nameAt(ratePerKey), needs, writers / (busy.keys * ratePerKey));
  } finally {
    await served.stop();
  }
}

async function measureNaive(folder: string): Promise<Cost> {
  const { served, keys } = await startNaive(folder, "counted-naive");
  try {
    const needs = await needsOf("naive", served, keys, {
      path: "/me",
      ratePerKey: busy.ratePerKey,
      everyMinute: async () => {},
      flush: async () => {},
      retain: () => fetch(`${served.url}/retain`, { method: "POST" }),
    });
    return costOf("naive", needs, 0);
  } finally {
    await served.stop();
  }
}

/**
 * Measures the cost of requests with 10,000 accounts of five keys each. Each key has one request per minute. The product serves 640 of these keys
 * in 64 isolates, which shows the work of guards and buffers. A simulated clock shows the work of the log writers: one of the four log writers gets
 * three hours of the traffic of its 2,500 accounts.
 */
async function measureQuiet(folder: string): Promise<Cost> {
  const front = await measureQuietFront(join(folder, "front"));
  const log = await simulate(join(folder, "log"), {
    accounts: quietAccounts.accounts / writers,
    keys: quietAccounts.keys,
    addresses: 5000,
    tasks: 1000,
    perSecond: Math.round(quietRate / writers),
    hours: 3,
  });
  const needs = {
    ...log,
    cpuMs: front.cpuMs,
    guardCalls: front.guardCalls,
    guardRows: front.guardRows,
    // A batch of a buffer holds the entries of one request at least.
    writerCalls: Math.min(1, front.writerCalls),
  };
  return costOf("10,000 accounts, 5 keys, 1 a minute each", needs, writers / quietRate);
}

async function measureQuietFront(folder: string): Promise<Needs> {
  const secrets = await prepare(folder, Array<number>(quiet.keys).fill(unlimited));
  const served = await startCounted(folder, quiet.isolates);
  try {
    return await needsOf("640 quiet keys", served, secrets, {
      path: "/api/v1/me",
      ratePerKey: quiet.ratePerKey,
      everyMinute: async () => {},
      flush: async () => {},
      retain: async () => {},
    });
  } finally {
    await served.stop();
  }
}

interface Traffic {
  accounts: number;
  keys: number;
  addresses: number;
  tasks: number;
  perSecond: number;
  hours: number;
}

/** Gives traffic to one log writer with a simulated clock. Returns the work of the log writer per request. */
async function simulate(folder: string, { hours, ...traffic }: Traffic): Promise<Needs> {
  await prepare(folder, []);
  const served = await serve(bundle("bench/workers/simulated.ts", join(folder, "simulated")), join(folder, "state"));
  try {
    const to = dayStart(Date.now());
    const counted = await countsOf(served);
    const requests = (await tell(served.url, "simulate", { ...traffic, from: to - hours * hourMs, to })) as number;
    await tell(served.url, "retain", to);
    const retained = await countsOf(served);
    const needs = { ...noNeeds };
    for (const name of Object.keys(counted) as (keyof Counts)[]) needs[name] = (retained[name] - counted[name]) / requests;
    console.log(`cost: ${requests} requests are simulated`);
    return needs;
  } finally {
    await served.stop();
  }
}

interface Way {
  path: string;
  ratePerKey: number;
  everyMinute: () => Promise<unknown>;
  flush: () => Promise<unknown>;
  retain: () => Promise<unknown>;
}

async function needsOf(
  name: string,
  served: Served,
  secrets: string[],
  { path, ratePerKey, everyMinute, flush, retain }: Way,
): Promise<Needs> {
  const targets = secrets.map((secret, index) => ({ url: (served.urls[index % served.urls.length] ?? "") + path, secret }));
  // The first request of a key makes its guard read the key from D1 and store it.
  for (const { url, secret } of targets) await request(url, secret);
  const warmUp = targets.length + (await paceEach(targets, ratePerKey, warmUpMs));
  await sleep(settledMs);
  const before = await countsOf(served);
  const cpuBefore = cpuMsOf([served.pid]);
  let requests = 0;
  for (let minute = 0; minute < minutesOfFlush; minute++) {
    requests += await paceEach(targets, ratePerKey, minuteMs);
    await everyMinute();
    console.log(`cost: minute ${minute + 1} of ${minutesOfFlush}, ${name}`);
  }
  await sleep(settledMs);
  const cpuMs = (cpuMsOf([served.pid]) - cpuBefore) / requests;
  await flush();
  const meanwhile = await countsOf(served);
  await retain();
  const after = await countsOf(served);
  const needs = { ...noNeeds, cpuMs };
  // Retention also deletes the entries of the warm-up requests.
  for (const count of Object.keys(before) as (keyof Counts)[])
    needs[count] = (meanwhile[count] - before[count]) / requests + (after[count] - meanwhile[count]) / (requests + warmUp);
  return needs;
}

/**
 * Sends requests with each key to the isolate of that key, at random times. `ratePerKey` is the average number of requests per second. Returns the
 * number of responses with status 200. Throws if a response has a status other than 200.
 */
async function paceEach(targets: readonly { url: string; secret: string }[], ratePerKey: number, forMs: number): Promise<number> {
  const endsAt = Date.now() + forMs;
  let answered = 0;
  const each = targets.map(async ({ url, secret }) => {
    for (;;) {
      const waitMs = (-Math.log(1 - Math.random()) * 1000) / ratePerKey;
      await sleep(Math.max(0, Math.min(waitMs, endsAt - Date.now())));
      if (Date.now() >= endsAt) return;
      await request(url, secret);
      answered++;
    }
  });
  await Promise.all(each);
  return answered;
}

async function request(url: string, secret: string): Promise<void> {
  const answer = await fetch(url, { headers: { Authorization: `Bearer ${secret}`, "CF-Connecting-IP": "198.51.100.7" } });
  await answer.arrayBuffer();
  if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`);
}

/** Returns each count, summed over all isolates. */
async function countsOf(served: Served): Promise<Counts> {
  const all = await Promise.all(served.urls.map(async (url) => (await (await fetch(`${url}/counts`)).json()) as Counts));
  const sum = { ...all[0] } as Counts;
  for (const counts of all.slice(1)) for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] += counts[name];
  return sum;
}
