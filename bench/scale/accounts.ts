import { setTimeout as sleep } from "node:timers/promises";
import { dayMs, hourMs, minuteMs, secondMs } from "../../src/lib/time/clock.ts";
import { prepare } from "../variants.ts";
import { bundle, type D1Ports, type Served, serve } from "../workerd.ts";
import { type SlowD1, startSlowD1 } from "./slow-d1.ts";

const accounts = 10_000;
const keys = 5;
const accountsAtOnce = 50;
const everyMinute = keys;

export interface Accounts {
  /** The time in milliseconds that the log writers need to cut every account and to store the cuts. */
  cutMs: number;
  /**
   * The time that D1 needs for one cut of every account, divided by twenty minutes. An account with 5 requests a minute is cut every twenty minutes.
   */
  cutShare: number;
  /**
   * The number of runs that the retention job needs to delete the entries of one hour, for all accounts. The retention job runs once per
   * minute.
   */
  retentionRuns: number;
  deleted: number;
  /** The time that D1 needs to delete the entries of one hour, divided by one hour. */
  retentionShare: number;
  /** The number of runs that the other jobs need to visit all accounts. Each of them runs once per minute. */
  rounds: { name: string; runs: number }[];
}

/** Sends a command to the filler Worker and returns the result of the command. */
export async function tell(url: string, verb: string, body: unknown): Promise<unknown> {
  const answer = await fetch(`${url}/${verb}`, { method: "POST", body: JSON.stringify(body), signal: AbortSignal.timeout(600_000) });
  if (!answer.ok) throw new Error(`${verb} was answered ${answer.status}: ${await answer.text()}`);
  return answer.json();
}

/**
 * Measures the share of D1's time that cuts and retention take. There are 10,000 accounts with five keys each. On average, every key has
 * one request per minute. The local D1 is slowed down to the speed of a deployed D1. `oneWayMs`: the network latency to both databases in each direction.
 */
export async function measureAccounts(folder: string, { oneWayMs }: { oneWayMs?: number } = {}): Promise<Accounts> {
  await prepare(folder, []);
  const script = bundle("bench/workers/filler.ts", `${folder}/filler`);
  const ids = Array.from({ length: accounts }, (_, index) => `acc_${String(index).padStart(5, "0")}`);
  // While the databases are filled, D1 is not slowed down.
  const filler = await serve(script, `${folder}/state`);
  const now = Date.now();
  await tell(filler.url, "accounts", ids);
  const oldFrom = now - 31 * dayMs - 2 * hourMs;
  for (let from = 0; from < accounts; from += accountsAtOnce) {
    const own = { accounts: ids.slice(from, from + accountsAtOnce), keys };
    await tell(filler.url, "append", { ...own, entries: everyMinute * 20, from: now - 21 * minuteMs, to: now - minuteMs });
    await tell(filler.url, "fill", { ...own, entries: everyMinute * 60, from: oldFrom, to: oldFrom + hourMs });
  }
  await filler.stop();
  console.log("scale: 10,000 accounts are filled");
  return behindSlowD1(script, `${folder}/state`, oneWayMs, async (served, d1) => ({
    ...(await cut(served, d1)),
    ...(await retain(served, d1, now)),
  }));
}

/** Serves a Worker whose main database and activity database are slow, and passes it to `work` with the proxy before its activity database. */
export async function behindSlowD1<Result>(
  script: string,
  folder: string,
  oneWayMs: number | undefined,
  work: (served: Served, d1: SlowD1) => Promise<Result>,
): Promise<Result> {
  const slow: SlowD1[] = [];
  const through = async ({ main, activity }: D1Ports) => {
    slow.push(await startSlowD1(activity, { oneWayMs }), await startSlowD1(main, { oneWayMs }));
    return { main: slow[1]?.port ?? 0, activity: slow[0]?.port ?? 0 };
  };
  const served = await serve(script, folder, { through });
  try {
    return await work(served, slow[0] as SlowD1);
  } finally {
    await served.stop();
    for (const each of slow) await each.stop();
  }
}

const cutEveryMs = 20 * minuteMs;

async function cut(served: Served, d1: SlowD1): Promise<{ cutMs: number; cutShare: number }> {
  d1.busyShare();
  const startedAt = Date.now();
  for (;;) {
    const { headEntries, oldestWaitingAt } = (await tell(served.url, "writers", null)) as {
      headEntries: number;
      oldestWaitingAt: number | null;
    };
    if (headEntries === 0 && oldestWaitingAt === null) break;
    await sleep(secondMs);
    if (Date.now() - startedAt > 10 * minuteMs) throw new Error("not all accounts are cut");
  }
  const tookMs = Date.now() - startedAt;
  return { cutMs: tookMs, cutShare: (d1.busyShare() * tookMs) / cutEveryMs };
}

async function retain(
  served: Served,
  d1: SlowD1,
  now: number,
): Promise<Pick<Accounts, "retentionRuns" | "deleted" | "retentionShare" | "rounds">> {
  const { runs, busyMs } = await round("delete_old_log_entries", served, d1, now);
  console.log("scale: an hour's entries are deleted");
  const rounds: Accounts["rounds"] = [];
  for (const name of ["delete_old_usage", "delete_old_history"]) rounds.push({ name, runs: (await round(name, served, d1, now)).runs });
  return { retentionRuns: runs, deleted: accounts * everyMinute * 60, retentionShare: busyMs / hourMs, rounds };
}

/** Runs a job until it has visited all accounts. Returns the number of runs, and the time for which D1 was busy. */
async function round(name: string, { url }: Served, d1: SlowD1, now: number): Promise<{ runs: number; busyMs: number }> {
  let [runs, busyMs] = [0, 0];
  for (let cursor: string | null = ""; cursor !== null; runs++) {
    d1.busyShare();
    const startedAt = Date.now();
    const outcome = (await tell(url, "job", { name, cursor, now })) as { next: string | null };
    busyMs += d1.busyShare() * (Date.now() - startedAt);
    cursor = outcome.next;
  }
  return { runs, busyMs };
}
