import { join } from "node:path";
import { dayMs, hourMs, hourStart, minuteMs } from "../src/clock.ts";
import { pace, type Variant } from "./load.ts";
import { prepare, startNaive, unlimited } from "./variants.ts";
import { bundle, type Served, serve } from "./workerd.ts";
import type { counts } from "./workers/counting.ts";

type Counts = typeof counts;

const keys = 64;
const rate = Math.round(keys * 1.4);
const minutes = 2;

/** Dollars (paid plan, past what is included; November 2026): https://developers.cloudflare.com/workers/platform/pricing/ */
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
  /** Of 1,000 requests, roll-ups and retention included. CPU is the Worker's and its objects', since nobody pays for D1's. */
  objectCalls: number;
  objectRows: number;
  statements: number;
  rowsWritten: number;
  rowsRead: number;
  cpuMs: number;
  dollarsPerMillion: number;
}

/** 64 keys at 1.4 requests a second each, with the cron job of each minute, then everything that retention does with these requests. */
export async function measureCost(folder: string): Promise<Cost[]> {
  const secrets = await prepare(join(folder, "ours"), Array<number>(keys).fill(unlimited));
  const ours = await serve(
    bundle("bench/workers/counted.ts", join(folder, "ours"), { defines: ["LOCAL_BUILD:false"] }),
    join(folder, "ours", "state"),
  );
  const naive = await startNaive(join(folder, "naive"), "counted-naive");
  try {
    const cron = (at: number) => fetch(`${ours.url}/cron?at=${at}`);
    const oursCost = await costOf(
      "ours",
      ours,
      secrets,
      "/api/v1/me",
      () => cron(Date.now() - (Date.now() % hourMs) + minuteMs),
      async () => {
        const hour = hourStart(Date.now()) + hourMs;
        // Addresses go after 7 days, entries after 31, hours after 62, days after 400.
        for (const days of [8, 32, 63, 401]) await untilNothingChanges(ours, () => cron(hour + days * dayMs));
      },
    );
    const retain = () => fetch(`${naive.served.url}/retain`, { method: "POST" });
    return [oursCost, await costOf("naive", naive.served, naive.keys, "/me", async () => {}, retain)];
  } finally {
    await ours.stop();
    await naive.served.stop();
  }
}

async function costOf(
  name: string,
  served: Served,
  secrets: string[],
  path: string,
  everyMinute: () => Promise<unknown>,
  retain: () => Promise<unknown>,
): Promise<Cost> {
  const variant: Variant = { name, url: served.url + path, keys: secrets, status: 200, pids: () => [served.pid] };
  await pace(variant, 10, rate, keys);
  const before = await countsOf(served);
  let requests = 0;
  let cpuMs = 0;
  for (let minute = 0; minute < minutes; minute++) {
    const run = await pace(variant, 60, rate, keys);
    await everyMinute();
    requests += run.requests;
    cpuMs += run.cpuMs * run.requests;
    console.log(`cost: minute ${minute + 1} of ${minutes}, ${name}`);
  }
  await retain();
  const after = await countsOf(served);
  const per = (count: keyof Counts) => (after[count] - before[count]) / requests;
  const cpu = cpuMs / requests;
  const dollars =
    prices.request +
    prices.cpuMs * cpu +
    // An object is paid for while it answers; here that is at most all of the CPU.
    per("objectCalls") * (prices.objectCall + prices.objectGbSecond * objectGb * (cpu / 1000)) +
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

const countsOf = async (served: Served) => (await (await fetch(`${served.url}/counts`)).json()) as Counts;

async function untilNothingChanges(served: Served, work: () => Promise<unknown>): Promise<void> {
  for (let before = -1, now = 0; now > before; ) {
    before = now;
    await work();
    now = (await countsOf(served)).rowsWritten;
  }
}
