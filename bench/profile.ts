import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { needDebian } from "./debian.ts";
import { load } from "./load.ts";
import { type Frame, partOf, partsOfLines } from "./parts.ts";
import { type Program, startPrograms } from "./variants.ts";

const rounds = 3;
const seconds = 5;
const warmSeconds = 8;
const samplesPerSecond = 1999;
const perf = "/usr/bin/perf";
const execFileAsync = promisify(execFile);

export interface Profile {
  /** The name of the variant. */
  name: string;
  /** The CPU time of workerd in microseconds per request, for each part of the platform and of the product. */
  parts: Map<string, number>;
}

/** A program. `partOfLine` contains the part of each line of its script. */
type Profiled = Program & { partOfLine: string[] };

/**
 * Measures how much of workerd's CPU time each part uses under full load, with Linux's `perf`. The parts include native code and JavaScript.
 * The variants are measured in turn. The CPU time of D1's processes is not included.
 */
export async function measureProfiles(folder: string): Promise<Profile[]> {
  needDebian({ [perf]: "linux-perf" });
  // With this flag, V8 writes the names of compiled functions to a file for perf.
  const programs = await startPrograms(folder, { v8Flags: ["--perf-basic-prof"] });
  const profiles = programs.variants.map((program) => ({
    variant: { ...program, pids: () => [program.served.pid], partOfLine: partsOfLines(readFileSync(program.script, "utf8")) },
    parts: new Map<string, number>(),
  }));
  try {
    for (const { variant } of profiles) await load(variant, warmSeconds);
    for (let round = 0; round < rounds; round++) {
      for (const { variant, parts } of profiles) {
        for (const [part, us] of await profileOf(variant, folder)) parts.set(part, (parts.get(part) ?? 0) + us / rounds);
      }
    }
    return profiles.map(({ variant, parts }) => ({ name: variant.name, parts }));
  } finally {
    await programs.stop();
    // V8 wrote the names of compiled functions to this file.
    for (const { variant } of profiles) rmSync(`/tmp/perf-${variant.served.pid}.map`, { force: true });
  }
}

/** Profiles one run of a variant. Returns the CPU time of each part, in microseconds per request. */
async function profileOf(variant: Profiled, folder: string): Promise<Map<string, number>> {
  const data = join(folder, "perf.data");
  const run = load(variant, seconds + 1);
  await sleep(500);
  const sampling = ["-F", String(samplesPerSecond), "-e", "cpu-clock", "-g", "-p", String(variant.served.pid)];
  await execFileAsync(perf, ["record", "-q", "-o", data, ...sampling, "--", "sleep", String(seconds)]);
  const { cpuMs } = await run;
  const counts = new Map<string, number>();
  let all = 0;
  for await (const { thread, stack } of samplesOf(data)) {
    const part = partOf(thread, stack, variant.partOfLine);
    counts.set(part, (counts.get(part) ?? 0) + 1);
    all++;
  }
  if (all === 0) throw new Error(`perf saw nothing of ${variant.name}`);
  return new Map([...counts].map(([part, count]) => [part, (1000 * cpuMs * count) / all]));
}

/**
 * Yields the samples from a data file of `perf`. In the output of `perf script`, a sample starts with a line that names the thread, and ends
 * with an empty line. The lines in between are the stack frames, starting with the innermost frame.
 */
async function* samplesOf(data: string): AsyncGenerator<{ thread: string; stack: Frame[] }> {
  const script = spawn(perf, ["script", "-i", data, "-F", "comm,ip,sym"], { stdio: ["ignore", "pipe", "ignore"] });
  let sample: { thread: string; stack: Frame[] } | undefined;
  for await (const line of createInterface({ input: script.stdout })) {
    const [, address = "", name = ""] = /^\s+([0-9a-f]+)\s+(.*)$/.exec(line) ?? [];
    if (address) sample?.stack.push({ isKernel: address.length === 16 && address.startsWith("ffff"), name });
    else if (line === "" && sample) {
      yield sample;
      sample = undefined;
    } else if (line !== "") sample = { thread: line.trim(), stack: [] };
  }
  if (script.exitCode === null) await once(script, "exit");
}
