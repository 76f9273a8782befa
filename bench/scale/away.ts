import { setTimeout as sleep } from "node:timers/promises";
import { dayMs, dayStart, hourMs, minuteMs, secondMs } from "../../src/lib/time/clock.ts";
import { prepare } from "../variants.ts";
import { bundle, serve } from "../workerd.ts";
import { type Accounts, behindSlowD1, measureAccounts, tell } from "./accounts.ts";

// Retention and merges with databases on another continent. Cron is not placed near the database, and an object from before the region was chosen stays
// where it is.

/** The network latency to D1 in each direction, in milliseconds. */
const oneWayMs = 100;
const accounts = 200;
const segmentsPerAccount = 24;
/** Each of them has one attempt, so that one run can delete all of them. */
const oldDeliveries = 10_000;
const maxMergeMs = 10 * minuteMs;

export interface Away {
  accounts: Accounts;
  /** The time in milliseconds that the log writers need to merge the segments of one day of 10,000 accounts. */
  mergeDayMs: number;
  /** The number of rows that one run of the job `delete_old_deliveries` deletes, and the time of the run in milliseconds. */
  deliveries: { deleted: number; tookMs: number };
}

/** Measures whether retention and merges hold their pace while each call of D1 takes 200 ms longer than the statement. */
export async function measureAway(folder: string): Promise<Away> {
  const measured = await measureAccounts(`${folder}/accounts`, { oneWayMs });
  return {
    accounts: measured,
    mergeDayMs: await measureMerges(`${folder}/merges`),
    deliveries: await measureDeliveries(`${folder}/deliveries`),
  };
}

/** Measures how long 200 accounts with a segment for each hour of a day wait for their merges, and scales the time to 10,000 accounts. */
async function measureMerges(folder: string): Promise<number> {
  await prepare(folder, []);
  const script = bundle("bench/workers/filler.ts", `${folder}/filler`);
  const ids = Array.from({ length: accounts }, (_, index) => `acc_${String(index).padStart(5, "0")}`);
  const now = Date.now();
  const day = dayStart(now - 2 * dayMs);
  const filler = await serve(script, `${folder}/state`);
  await tell(filler.url, "accounts", ids);
  for (let hour = 0; hour < segmentsPerAccount; hour++)
    await tell(filler.url, "fill", { accounts: ids, keys: 1, entries: 20, from: day + hour * hourMs, to: day + (hour + 1) * hourMs });
  // A log writer merges the segments of an account after it has made a cut of the account.
  await tell(filler.url, "append", { accounts: ids, keys: 1, entries: 1, from: now - hourMs, to: now - hourMs });
  await filler.stop();
  return behindSlowD1(script, `${folder}/state`, oneWayMs, async ({ url }) => {
    const startedAt = Date.now();
    while (((await tell(url, "segmentsBefore", day + dayMs)) as number) > accounts) {
      if (Date.now() - startedAt > maxMergeMs) return Number.POSITIVE_INFINITY;
      await tell(url, "writers", null);
      await sleep(2 * secondMs);
    }
    console.log("scale: the segments of a day are merged");
    return ((Date.now() - startedAt) * 10_000) / accounts;
  });
}

async function measureDeliveries(folder: string): Promise<Away["deliveries"]> {
  await prepare(folder, []);
  const script = bundle("bench/workers/filler.ts", `${folder}/filler`);
  const filler = await serve(script, `${folder}/state`);
  await tell(filler.url, "oldDeliveries", oldDeliveries);
  await filler.stop();
  return behindSlowD1(script, `${folder}/state`, oneWayMs, async ({ url }) => {
    const startedAt = Date.now();
    const { done } = (await tell(url, "job", { name: "delete_old_deliveries", cursor: "", now: Date.now() })) as { done: number };
    console.log("scale: old deliveries are deleted");
    return { deleted: done, tookMs: Date.now() - startedAt };
  });
}
