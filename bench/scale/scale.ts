import { join } from "node:path";
import { measureAccounts } from "./accounts.ts";
import { measureAway } from "./away.ts";
import { measureBurst, measureSweep } from "./deliveries.ts";
import { type Kills, measureKills } from "./kill.ts";
import { measureBusyAccount, measureLogWay } from "./log-way.ts";
import { measureNeighbours } from "./neighbours.ts";

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
    what: `1,000 simulated isolates, 3,000 requests/s, a cut every 15 s, D1 at 3 ms and 0.02 ms a row: ${name}`,
    measured: `${stored.toLocaleString("en")} of ${sent.toLocaleString("en")} stored; from request to reader p50 ${seconds(p50)}, p99 ${seconds(p99)}; D1 busy ${percent(busyShare)}; drained ${seconds(drainedMs)} after`,
    goal: "all stored once, visible in 1 s, drained within a minute after",
    isMet: stored === sent && p99 <= 1000 && drainedMs < 60_000,
  }));
}

async function busyAccount(folder: string): Promise<Shown[]> {
  const [idle, busy] = await measureBusyAccount(folder);
  if (!idle || !busy) return [];
  return [
    {
      what: "one account, 2,000 requests/s from 500 simulated isolates: its own entries",
      measured: `visible after p99 ${seconds(busy.ownVisibleP99)}`,
      goal: "visible in 1 s",
      isMet: busy.ownVisibleP99 <= 1000,
    },
    {
      what: "the same: entries of other accounts in its log writer, and looking for one of them there",
      measured: `visible after p99 ${Math.round(busy.visibleP99)} ms (${Math.round(idle.visibleP99)} ms beside an idle account); a search takes p99 ${Math.round(busy.searchP99)} ms (${Math.round(idle.searchP99)} ms)`,
      goal: "visible in 1 s",
      isMet: busy.visibleP99 <= 1000,
    },
  ];
}

async function accounts(folder: string): Promise<Shown[]> {
  const measured = await measureAccounts(folder);
  return [
    {
      what: "10,000 accounts x 5 keys, all active each minute: one cut of every account",
      measured: `stored within ${seconds(measured.cutMs)}, ${percent(measured.cutShare)} of D1's time`,
      goal: "within two minutes, under a third of D1's time",
      isMet: measured.cutMs < 120_000 && measured.cutShare < 1 / 3,
    },
    {
      what: "the same, retention of an hour's entries",
      measured: `${measured.deleted.toLocaleString("en")} deleted in ${measured.retentionRuns} runs, one a minute; ${percent(measured.retentionShare)} of D1's time`,
      goal: "within the hour, under a tenth of D1's time",
      isMet: measured.retentionRuns <= 60 && measured.retentionShare < 0.1,
    },
  ];
}

async function away(folder: string): Promise<Shown[]> {
  const { accounts: far, mergeDayMs, deliveries } = await measureAway(folder);
  const minutes = (ms: number) => `${Math.round(ms / 60_000)} minutes`;
  return [
    {
      what: "10,000 accounts x 5 keys, D1 200 ms away: one cut of every account",
      measured: `stored within ${seconds(far.cutMs)}`,
      goal: "within two minutes",
      isMet: far.cutMs < 120_000,
    },
    {
      what: "the same, retention of an hour's entries, and the jobs that delete old usage and old history",
      measured: `${[{ name: "entries", runs: far.retentionRuns }, ...far.rounds].map(({ name, runs }) => `${name.replace("delete_old_", "")} in ${runs}`).join(", ")} runs, one a minute`,
      goal: "within the hour",
      isMet: [far.retentionRuns, ...far.rounds.map(({ runs }) => runs)].every((runs) => runs <= 60),
    },
    {
      what: "the same, merges of the segments of one day, 24 of each account",
      measured: `${minutes(mergeDayMs)}`,
      goal: "within six hours",
      isMet: mergeDayMs < 6 * 3_600_000,
    },
    {
      what: "the same, one run of the job that deletes old deliveries",
      measured: `${deliveries.deleted.toLocaleString("en")} deliveries and attempts in ${seconds(deliveries.tookMs)}`,
      goal: "20,000 in 40 s",
      isMet: deliveries.deleted >= 20_000 && deliveries.tookMs < 40_000,
    },
  ];
}

async function neighbours(folder: string): Promise<Shown[]> {
  const measured = await measureNeighbours(folder);
  return measured.map(({ path, usual, beside }) => ({
    what: `250,000 entries in one hour of an account, 8 pollers of its \`/usage\`: another account's p95 of \`${path.replace("/api/v1", "")}\` in the same database`,
    measured: `${(beside / usual).toFixed(2)} times as long as beside 8 pollers of a small account (${beside.toFixed(1)} and ${usual.toFixed(1)} ms)`,
    goal: "at most twice",
    isMet: beside <= 2 * usual,
  }));
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

async function sweep(folder: string): Promise<Shown[]> {
  const sweeps = await measureSweep(folder);
  return sweeps.map(({ webhooks, done, tookMs }) => ({
    what: `500,000 due deliveries of ${webhooks.toLocaleString("en")} webhooks: one sweep`,
    measured: `${tookMs} ms, ${done} started`,
    goal: "under 100 ms",
    isMet: tookMs < 100,
  }));
}

async function kill(folder: string): Promise<Shown[]> {
  const { quiet, slow, tasksMade, tasksLost, admittedOfLimited } = await measureKills(folder);
  const of = ({ answered, lost, earliestMs }: Kills) =>
    `${lost} of ${answered.toLocaleString("en")} answered requests without an entry, the earliest answered ${Math.round(earliestMs)} ms before its kill`;
  return [
    {
      what: "SIGKILL of everything under load, ten times, every second time with 90 % of D1 taken by others",
      measured: `${of(quiet)}; with D1 slow ${of(slow)}; ${tasksLost} of ${tasksMade.toLocaleString("en")} tasks lost, with their events; ${admittedOfLimited} admitted of a limit of 300`,
      goal: "at most the last two seconds; no event, no task, no limit",
      isMet: quiet.earliestMs <= 2000 && slow.earliestMs <= 2000 && tasksLost === 0 && admittedOfLimited <= 300,
    },
  ];
}

const parts: Record<string, (folder: string) => Promise<Shown[]>> = {
  log: logWay,
  busy: busyAccount,
  accounts,
  away,
  neighbours,
  burst,
  sweep,
  kill,
};

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
