import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { needDebian } from "./debian.ts";
import { load, type Variant } from "./load.ts";
import { floors, forgedKeys, prepare, unlimited } from "./variants.ts";
import { bundle, serve } from "./workerd.ts";

const warmSeconds = 40;
const rounds = 3;
const seconds = 10;
/** V8 writes machine code, and compiles it on threads of its own, which are not to starve. */
const callgrind = [
  "/usr/bin/valgrind",
  "--tool=callgrind",
  "--callgrind-out-file=/dev/null",
  "--smc-check=all-non-file",
  "--fair-sched=yes",
];

export interface Instructions {
  /** The variant. */
  name: string;
  /** That workerd runs for a request, in each round. */
  counts: number[];
}

/**
 * The instructions that workerd runs for a request, without the kernel's: hardly anything else on the machine changes them. Valgrind
 * makes some hundred requests a second of some thousand, so that what goes by the clock (the log is written every 50 ms, guards'
 * alarms ring every 5 s) falls on fewer of them than under full load.
 */
export async function measureInstructions(folder: string): Promise<Instructions[]> {
  needDebian({ "/usr/bin/valgrind": "valgrind" });
  const keys = await prepare(join(folder, "ours"), Array<number>(64).fill(unlimited));
  await prepare(join(folder, "floor"), []);
  const [oneKey, forged] = [keys.slice(0, 1), forgedKeys()];
  const programs: { name: string; source: string; variants: Omit<Variant, "pids">[] }[] = [
    { name: "bare", source: "bench/workers/bare.ts", variants: [{ name: "bare", url: "/", keys, status: 200 }] },
    {
      name: "floor",
      source: "bench/workers/floor.ts",
      variants: [
        { name: floors.exchange, url: "/exchange", keys, status: 200 },
        { name: floors.admitted, url: "/admitted", keys: oneKey, status: 200 },
        { name: floors.of64, url: "/admitted", keys, status: 200 },
        { name: floors.forged, url: "/forged", keys: forged, status: 401 },
      ],
    },
    {
      name: "ours",
      source: "src/index.ts",
      variants: [
        { name: "ours, one key", url: "/api/v1/me", keys: oneKey, status: 200 },
        { name: "ours, 64 keys", url: "/api/v1/me", keys, status: 200 },
        { name: "ours, forged keys", url: "/api/v1/me", keys: forged, status: 401 },
      ],
    },
  ];
  const measured: Instructions[] = [];
  for (const { name, source, variants } of programs) {
    const script = bundle(source, join(folder, name));
    const served = await serve(script, join(folder, name, "state"), { under: callgrind });
    try {
      for (const { url, ...variant } of variants) {
        const ofProcess: Variant = { ...variant, url: served.url + url, pids: () => [served.pid] };
        await load(ofProcess, warmSeconds);
        measured.push({ name: variant.name, counts: await countsOf(ofProcess, served.pid) });
      }
    } finally {
      await served.stop();
    }
  }
  return measured;
}

async function countsOf(variant: Variant, pid: number): Promise<number[]> {
  const counts: number[] = [];
  while (counts.length < rounds) {
    control("-z", pid);
    const { requests } = await load(variant, seconds);
    counts.push(instructionsIn(control("-e", pid)) / requests);
  }
  return counts;
}

const control = (option: string, pid: number): string =>
  execFileSync("/usr/bin/callgrind_control", [option, String(pid)], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });

/** Of all threads: `Th 1  12,345`. */
const instructionsIn = (said: string): number =>
  [...said.matchAll(/^\s*Th\s*\d+\s+([\d,]+)/gm)].reduce((sum, [, count = ""]) => sum + Number(count.replaceAll(",", "")), 0);
