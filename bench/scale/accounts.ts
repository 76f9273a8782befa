import { setTimeout as sleep } from "node:timers/promises";
import { dayMs, hourMs, minuteMs, secondMs } from "../../src/lib/time/clock.ts";
import { prepare } from "../variants.ts";
import { bundle, type Served, serve } from "../workerd.ts";
import { behindSlowD1, type SlowD1 } from "./slow-d1.ts";

const accounts = 10_000;
const keys = 5;
const accountsAtOnce = 50;
const everyMinute = keys;

export interface Accounts {
  /** The time in milliseconds that the log writers need to flush every account and to store the flushes. */
  flushMs: number;
  /**
   * The time that D1 needs for one flush of every account, divided by twenty minutes. An account with 5 requests a minute is flushed every twenty minutes.
   */
  flushShare: number;
  /**
   * The number of runs that the retention job needs to delete the entries of one hour, for all accounts. The retention job runs once per
   * minute.
   */
  retentionRuns: number;
  deleted: number;
  /** The time that D1 needs to delete the entries of one hour, divided by one hour. */
  retentionShare: number;
}

/** Sends a command to the filler Worker and returns the result of the command. */
export async function tell(url: string, verb: string, body: unknown): Promise<unknown> {
  const answer = await fetch(`${url}/${verb}`, { method: "POST", body: JSON.stringify(body), signal: AbortSignal.timeout(600_000) });
  if (!answer.ok) throw new Error(`${verb} was answered ${answer.status}: ${await answer.text()}`);
  return answer.json();
}

/**
 * Measures the share of D1's time that flushes and retention take. There are 10,000 accounts with five keys each. On average, every key has
 * one request per minute. The local D1 is slowed down to the speed of a deployed D1.
 */
export async function measureAccounts(folder: string): Promise<Accounts> {
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
  return behindSlowD1(script, `${folder}/state`, {}, async (served, d1) => ({
    ...(await flush(served, d1)),
    ...(await retain(served, d1, now)),
  }));
}

const flushEveryMs = 20 * minuteMs;

async function flush(served: Served, d1: SlowD1): Promise<{ flushMs: number; flushShare: number }> {
  d1.busyShare();
  const startedAt = Date.now();
  for (;;) {
    const { memtableEntries, oldestWaitingAt } = (await tell(served.url, "writers", null)) as {
      memtableEntries: number;
      oldestWaitingAt: number | null;
    };
    if (memtableEntries === 0 && oldestWaitingAt === null) break;
    await sleep(secondMs);
    if (Date.now() - startedAt > 10 * minuteMs) throw new Error("not all accounts are flushed");
  }
  const tookMs = Date.now() - startedAt;
  return { flushMs: tookMs, flushShare: (d1.busyShare() * tookMs) / flushEveryMs };
}

/** Runs the retention job until it has visited all accounts. */
async function retain({ url }: Served, d1: SlowD1, now: number): Promise<Pick<Accounts, "retentionRuns" | "deleted" | "retentionShare">> {
  let [runs, busyMs] = [0, 0];
  for (let cursor: string | null = ""; cursor !== null; runs++) {
    d1.busyShare();
    const startedAt = Date.now();
    const outcome = (await tell(url, "job", { name: "delete_old_log_entries", cursor, now })) as { next: string | null };
    busyMs += d1.busyShare() * (Date.now() - startedAt);
    cursor = outcome.next;
  }
  console.log("scale: an hour's entries are deleted");
  return { retentionRuns: runs, deleted: accounts * everyMinute * 60, retentionShare: busyMs / hourMs };
}
