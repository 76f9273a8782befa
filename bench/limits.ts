import { join } from "node:path";
import { needsOf, startCounted } from "./cost.ts";
import type { Variant } from "./load.ts";
import { type Measured, measureThroughput } from "./throughput.ts";
import { type MoreLimits, prepare, unlimited } from "./variants.ts";
import { bundle, serve } from "./workerd.ts";

// Measures what limits cost beside the limit per hour: CPU time of a request, and calls and rows of an account whose keys share a limit.

const hugeLimits = (...periods: ("second" | "hour" | "day" | "month")[]) => periods.map((per) => ({ per, limit: unlimited }));

const cpuVariants: [name: string, limits: MoreLimits][] = [
  ["hour", {}],
  ["second, hour and month", { otherLimits: hugeLimits("second", "month") }],
  ["hour, and hour and day of the account", { sharedLimits: hugeLimits("hour", "day") }],
  [
    "second, hour and month, and hour and day of the account",
    { otherLimits: hugeLimits("second", "month"), sharedLimits: hugeLimits("hour", "day") },
  ],
];
/** Two starts of the same variant can differ more than two variants do, so the comparison has several starts. */
const rounds = { starts: 4, ofStart: 2 };

const keys = 50;
const ratePerKey = 2;
/** The limit of an account whose keys have fewer than eight units each. It is used up in the last minute. */
const scarce = { limit: keys * 8, ratePerKey: 0.05, minutes: 2 };

export interface MeasuredLimits {
  cpu: Measured[];
  /** Counts per request. `alarms`: the guards' own alarms, which a busy key has every five seconds, with or without a shared limit. */
  calls: { name: string; calls: number; alarms: number; rows: number }[];
}

export async function measureLimits(folder: string): Promise<MeasuredLimits> {
  const cpu = await measureThroughput(join(folder, "cpu"), { startAll, rounds, isPaced: false });
  const calls = [
    await callsOf(join(folder, "far"), "2 requests/s each, far from the end of the limit", unlimited, { ratePerKey, minutes: 5 }),
    await callsOf(join(folder, "near"), "fewer than 8 units for each key", scarce.limit, scarce),
  ];
  return { cpu: cpu.slice(1), calls };
}

async function startAll(folder: string, start: number): Promise<{ variants: Variant[]; stop(): Promise<void> }> {
  const bare = await serve(bundle("bench/workers/bare.ts", join(folder, "bare")), join(folder, "bare"));
  const started: { variant: Variant; stop(): Promise<void> }[] = [];
  for (const [name, limits] of start % 2 === 0 ? cpuVariants : cpuVariants.toReversed()) {
    const own = join(folder, name.replaceAll(/\W+/g, "-"));
    const secrets = await prepare(own, [unlimited], undefined, limits);
    const served = await serve(bundle("src/index.ts", own), join(own, "state"));
    const variant = { name, url: `${served.url}/api/v1/me`, pids: served.pids, keys: secrets, status: 200 };
    started.push({ variant, stop: served.stop });
  }
  const inOrder = cpuVariants.flatMap(([name]) => started.filter(({ variant }) => variant.name === name));
  const [first] = inOrder;
  if (!first) throw new Error("nothing has started");
  const stop = async () => {
    for (const each of [...started, { stop: bare.stop }]) await each.stop();
  };
  return { variants: [{ ...first.variant, name: "bare", url: bare.url, pids: bare.pids }, ...inOrder.map(({ variant }) => variant)], stop };
}

async function callsOf(folder: string, name: string, limit: number, { ratePerKey, minutes }: { ratePerKey: number; minutes: number }) {
  const secrets = await prepare(folder, Array<number>(keys).fill(unlimited), undefined, { sharedLimits: [{ per: "hour", limit }] });
  const served = await startCounted(folder, 1);
  try {
    const nothing = async () => {};
    const way = { path: "/api/v1/me", ratePerKey, everyMinute: nothing, cut: nothing, retain: nothing, minutes };
    const needs = await needsOf(name, served, secrets, way);
    return {
      name,
      calls: needs.guardCalls - needs.guardAlarms + needs.budgetCalls,
      alarms: needs.guardAlarms,
      rows: needs.guardRows + needs.budgetRows,
    };
  } finally {
    await served.stop();
  }
}
