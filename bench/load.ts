import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const clockTicksPerSecond = 100;

export interface Variant {
  name: string;
  url: string;
  /** Sent in turn as `Authorization: Bearer`. */
  keys: string[];
  /** What every request must be answered with. */
  status: number;
  pids(): number[];
}

export interface Run {
  requestsPerSecond: number;
  requests: number;
  /** CPU of the served processes, milliseconds for each request. */
  cpuMs: number;
  p50: number;
  p99: number;
}

/** Sends requests of a variant for some seconds: as many as 32 connections can, or `rate` a second. Throws where it is answered anything unexpected. */
export async function load(variant: Variant, seconds: number, rate?: number): Promise<Run> {
  const before = cpuMsOf(variant.pids());
  const told = await run(join(import.meta.dirname, "load.mjs"), JSON.stringify({ url: variant.url, keys: variant.keys, seconds, rate }));
  const cpuMs = cpuMsOf(variant.pids()) - before;
  const { requests, seconds: took, statuses, p50, p99 } = JSON.parse(told);
  const others = Object.keys(statuses).filter((status) => Number(status) !== variant.status);
  if (requests === 0 || others.length > 0) throw new Error(`${variant.name} answered ${JSON.stringify(statuses)}`);
  return { requests, requestsPerSecond: requests / took, cpuMs: cpuMs / requests, p50, p99 };
}

function run(script: string, argument: string): Promise<string> {
  const child = spawn(process.execPath, [script, argument], { stdio: ["ignore", "pipe", "inherit"] });
  let out = "";
  child.stdout.on("data", (chunk) => (out += chunk));
  return new Promise((resolve, reject) =>
    child.on("close", (code) => (code === 0 ? resolve(out) : reject(new Error(`${script}: ${code}`)))),
  );
}

/** User and system time of processes so far, in milliseconds. */
export function cpuMsOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const fields = statOf(pid);
    return sum + ((Number(fields[11]) + Number(fields[12])) * 1000) / clockTicksPerSecond;
  }, 0);
}

/** Resident memory of a process in MiB. */
export const residentMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;

/** A process and all that it started. */
export function withChildren(pid: number): number[] {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => [Number(name), Number(statOf(Number(name))[1] ?? 0)] as const);
  const all = [pid];
  for (const known of all) all.push(...parents.flatMap(([child, parent]) => (parent === known ? [child] : [])));
  return all;
}

/** The fields of /proc/PID/stat after the name; empty where the process has ended. */
function statOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  } catch {
    return [];
  }
}

export const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
