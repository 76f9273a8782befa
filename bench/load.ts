import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { needDebian } from "./debian.ts";

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

const script = (name: string) => join(import.meta.dirname, name);

/** Sends as many requests of a variant as 32 connections can, for some seconds (autocannon). Throws where it is answered anything unexpected. */
export async function load(variant: Variant, seconds: number): Promise<Run> {
  const { url, keys, status } = variant;
  const { cpuMs, told } = await run(variant, process.execPath, [script("load.mjs"), JSON.stringify({ url, keys, seconds })]);
  const { statuses, ...others } = told;
  if (Object.keys(statuses).some((each) => Number(each) !== status))
    throw new Error(`${variant.name} answered ${JSON.stringify(statuses)}`);
  return runOf(variant, cpuMs, others);
}

/** Sends `rate` requests of a variant a second, spread in time over the connections (wrk, since autocannon sends those of a second at once). Throws as above. */
export async function pace(variant: Variant, seconds: number, rate: number, connections: number): Promise<Run> {
  needDebian({ "/usr/bin/wrk": "wrk" });
  const meanMs = Math.round((1000 * connections) / rate);
  const options = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "10s", "-s", script("pace.lua"), variant.url];
  const { cpuMs, told } = await run(variant, "/usr/bin/wrk", [...options, "--", String(meanMs), ...variant.keys]);
  if (told.failed > 0 || told.refused !== (variant.status < 400 ? 0 : told.requests))
    throw new Error(`${variant.name} answered ${JSON.stringify(told)}`);
  return runOf(variant, cpuMs, told);
}

const runOf = (
  { name }: Variant,
  cpuMs: number,
  { requests, seconds, p50, p99 }: Record<"requests" | "seconds" | "p50" | "p99", number>,
): Run => {
  if (requests === 0) throw new Error(`${name} answered nothing`);
  return { requests, requestsPerSecond: requests / seconds, cpuMs: cpuMs / requests, p50, p99 };
};

/** Runs a command against a variant: the JSON in its last line, and the CPU that the variant has used meanwhile. */
async function run(variant: Variant, command: string, args: string[]) {
  const before = cpuMsOf(variant.pids());
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  let out = "";
  child.stdout.on("data", (chunk) => (out += chunk));
  await new Promise<void>((resolve, reject) =>
    child.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`${command} ended with ${code}: ${out}`)))),
  );
  return { told: JSON.parse(out.trim().split("\n").at(-1) ?? ""), cpuMs: cpuMsOf(variant.pids()) - before };
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
