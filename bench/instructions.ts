import { execFileSync } from "node:child_process";
import { needDebian } from "./debian.ts";
import { load, type Variant } from "./load.ts";
import { startPrograms } from "./variants.ts";

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
 * The instructions that workerd runs for a request, without the kernel's: hardly anything else on the machine changes them. Under valgrind
 * some hundred requests a second are left of some thousand. So timed work falls on fewer of them than under full load: the log is written
 * every 50 ms, and guards' alarms ring every 5 s.
 */
export async function measureInstructions(folder: string): Promise<Instructions[]> {
  needDebian({ "/usr/bin/valgrind": "valgrind" });
  const { variants, stop } = await startPrograms(folder, { under: callgrind });
  try {
    const measured: Instructions[] = [];
    for (const variant of variants) {
      await load(variant, warmSeconds);
      measured.push({ name: variant.name, counts: await countsOf(variant, variant.served.pid) });
    }
    return measured;
  } finally {
    await stop();
  }
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
