import { execFileSync } from "node:child_process";
import { needDebian } from "./debian.ts";
import { load, type Variant } from "./load.ts";
import { startPrograms } from "./variants.ts";

const warmSeconds = 40;
const rounds = 3;
const seconds = 10;
/**
 * V8 generates machine code at run time. Valgrind must therefore detect changes to code. V8 compiles on separate threads. Fair scheduling
 * ensures that these threads get time to run.
 */
const callgrind = [
  "/usr/bin/valgrind",
  "--tool=callgrind",
  "--callgrind-out-file=/dev/null",
  "--smc-check=all-non-file",
  "--fair-sched=yes",
];

export interface Instructions {
  /** The name of the variant. */
  name: string;
  /** The number of instructions that workerd executes per request. The array has one number for each round. */
  counts: number[];
}

/**
 * Measures the number of instructions that workerd executes per request. Instructions of the kernel are not counted. Other load on the machine
 * hardly affects the number of instructions. Under valgrind, throughput falls from thousands of requests per second to hundreds. With fewer
 * requests, the number per request includes a larger share of timed work. Timed work runs at fixed intervals. Examples are the log write every
 * 50 ms and the alarms of guards every 5 s.
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

/** Returns the number of instructions of all threads together. For each thread, the output of callgrind_control has a line like `Th 1  12,345`. */
const instructionsIn = (said: string): number =>
  [...said.matchAll(/^\s*Th\s*\d+\s+([\d,]+)/gm)].reduce((sum, [, count = ""]) => sum + Number(count.replaceAll(",", "")), 0);
