import { join } from "node:path";
import { measureAccounts } from "./accounts.ts";
import { measureBurst } from "./deliveries.ts";
import { measureLogWay } from "./log-way.ts";

/** A table row with a promise and the measured result. */
export interface Shown {
  what: string;
  measured: string;
  goal: string;
  isMet: boolean;
}

const percent = (share: number) => `${Math.round(100 * share)} %`;
const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

async function logWay(folder: string): Promise<Shown[]> {
  const ways = await measureLogWay(folder);
  return ways.map(({ name, sent, stored, p50, p99, busyShare, drainedMs }) => ({
    what: `1,000 simulated isolates, 3,000 requests/s, a flush every 15 s, D1 at 3 ms and 0.02 ms a row: ${name}`,
    measured: `${stored.toLocaleString("en")} of ${sent.toLocaleString("en")} stored; from request to reader p50 ${seconds(p50)}, p99 ${seconds(p99)}; D1 busy ${percent(busyShare)}; drained ${seconds(drainedMs)} after`,
    goal: "all stored once, visible in 1 s, drained within a minute after",
    isMet: stored === sent && p99 <= 1000 && drainedMs < 60_000,
  }));
}

async function accounts(folder: string): Promise<Shown[]> {
  const measured = await measureAccounts(folder);
  return [
    {
      what: "10,000 accounts x 5 keys, all active each minute: one flush of every account",
      measured: `stored within ${seconds(measured.flushMs)}, ${percent(measured.flushShare)} of D1's time`,
      goal: "within two minutes, under a third of D1's time",
      isMet: measured.flushMs < 120_000 && measured.flushShare < 1 / 3,
    },
    {
      what: "the same, retention of an hour's entries",
      measured: `${measured.deleted.toLocaleString("en")} deleted in ${measured.retentionRuns} runs, one a minute; ${percent(measured.retentionShare)} of D1's time`,
      goal: "within the hour, under a tenth of D1's time",
      isMet: measured.retentionRuns <= 60 && measured.retentionShare < 0.1,
    },
  ];
}

async function burst(folder: string): Promise<Shown[]> {
  const { p50, p99, events, maxAtOnce, delivered } = await measureBurst(folder);
  return [
    {
      what: "one deletion that makes 30,000 deliveries: another account's event",
      measured: `p50 ${Math.round(p50)} ms, p99 ${Math.round(p99)} ms of ${events} events in a minute; the receiver saw ${maxAtOnce} of a webhook at once, ${delivered.toLocaleString("en")} in all`,
      goal: "p99 under 1 s, no receiver sees more than ten at once",
      isMet: p99 < 1000 && maxAtOnce <= 10,
    },
  ];
}

const parts: Record<string, (folder: string) => Promise<Shown[]>> = { log: logWay, accounts, burst };

/** If `only` is given, measures the part with this name. Otherwise, measures all parts. Throws if `only` is not the name of a part. */
export async function measureScale(folder: string, only?: string): Promise<Shown[]> {
  if (only !== undefined && !(only in parts)) throw new Error(`scale has the parts ${Object.keys(parts).join(", ")}`);
  const shown: Shown[] = [];
  for (const [name, measure] of Object.entries(parts))
    if (only === undefined || only === name) shown.push(...(await measure(join(folder, name))));
  return shown;
}

export const scaleTable = (shown: readonly Shown[]): string =>
  [
    "| what | measured | goal | met |",
    "| --- | --- | --- | ---: |",
    ...shown.map(({ what, measured, goal, isMet }) => `| ${what} | ${measured} | ${goal} | ${isMet ? "yes" : "no"} |`),
  ].join("\n");
