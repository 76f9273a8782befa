import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { needDebian } from "./debian.ts";

const clockTicksPerSecond = 100;
const fullLoadConnections = 32;
const execFileAsync = promisify(execFile);

export interface Variant {
  name: string;
  url: string;
  /** Sent in turn as `Authorization: Bearer`. */
  keys: string[];
  /** Whether each request has a key of its own, made of these by other characters in their secret part. */
  neverRepeats?: boolean;
  /** What every request must be answered with. */
  status: number;
  pids(): number[];
  /** What an attacker gets: its latency is of no interest at an even pace. */
  isAttack?: boolean;
  /** What a run needs to have happened just before it. */
  before?(): Promise<unknown>;
}

export interface Run {
  requestsPerSecond: number;
  requests: number;
  /** CPU of the served processes, milliseconds for each request. */
  cpuMs: number;
  p50: number;
  p99: number;
}

/** Sends as many requests of a variant as 32 connections can, for some seconds. Throws where it is answered anything unexpected. */
export const load = (variant: Variant, seconds: number): Promise<Run> => send(variant, seconds, fullLoadConnections, 0);

/** Sends `rate` requests of a variant a second, spread in time over connections that wait between theirs. Throws as above. */
export const pace = (variant: Variant, seconds: number, rate: number, connections: number): Promise<Run> =>
  send(variant, seconds, connections, Math.round((1000 * connections) / rate));

/** wrk, which tells refused answers from others, and no more: so one answer is looked at before. */
async function send(variant: Variant, seconds: number, connections: number, meanWaitMs: number): Promise<Run> {
  needDebian({ "/usr/bin/wrk": "wrk" });
  const { name, url, keys, status, pids, neverRepeats = false } = variant;
  const first = await fetch(url, { headers: { Authorization: `Bearer ${keys[0]}`, "CF-Connecting-IP": "198.51.100.7" } });
  await first.arrayBuffer();
  if (first.status !== status) throw new Error(`${name} answered ${first.status}`);
  const options = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "10s", "-s", join(import.meta.dirname, "load.lua"), url];
  const before = cpuMsOf(pids());
  const { stdout } = await execFileAsync("/usr/bin/wrk", [...options, "--", String(meanWaitMs), String(neverRepeats), ...keys]);
  const cpuMs = cpuMsOf(pids()) - before;
  const { requests, seconds: took, refused, failed, p50, p99 } = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Told;
  if (requests === 0 || failed > 0 || refused !== (status < 400 ? 0 : requests)) throw new Error(`${name} answered: ${stdout}`);
  return { requests, requestsPerSecond: requests / took, cpuMs: cpuMs / requests, p50, p99 };
}

/** What load.lua prints. `seconds`: how long it really took. */
type Told = Record<"requests" | "seconds" | "refused" | "failed" | "p50" | "p99", number>;

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

/** Of an even number of values, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? Number.NaN;
  return (at(Math.floor((sorted.length - 1) / 2)) + at(Math.ceil((sorted.length - 1) / 2))) / 2;
}
