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
  /** The API keys that the requests use in turn, in the header `Authorization: Bearer`. */
  keys: string[];
  /** Whether each request sends a unique key. A unique key is a copy of one of `keys` with a different secret part. */
  neverRepeats?: boolean;
  /** Further headers of GET requests. */
  headers?: Readonly<Record<string, string>>;
  /**
   * The bodies of POST requests, which are sent in turn. Without bodies, the requests are GET requests. In a body, `0000000000` becomes a number that
   * no other request has.
   */
  bodies?: readonly string[];
  /** The status that every response must have. */
  status: number;
  pids(): number[];
  /** Whether the variant simulates an attack. Attacks are measured only under full load, and not at an even pace. */
  isAttack?: boolean;
  /** Prepares the variant immediately before each run. */
  before?(): Promise<unknown>;
}

export interface Run {
  requestsPerSecond: number;
  requests: number;
  /** CPU time of the variant's processes, in milliseconds per request. */
  cpuMs: number;
  p50: number;
  p99: number;
  /** How many requests took at most 1, 2, 3, 5, 10, 40 and 60 ms, and how many there were. */
  withinMs: number[];
}

/** Sends requests to a variant over 32 connections without pauses. Throws if a request fails or if a response has an unexpected status. */
export const load = (variant: Variant, seconds: number): Promise<Run> => send(variant, seconds, fullLoadConnections, 0);

/**
 * Sends `rate` requests per second to a variant. Each connection waits between its requests, so the requests are spread over time. Throws the same
 * errors as `load`.
 */
export const pace = (variant: Variant, seconds: number, rate: number, connections: number): Promise<Run> =>
  send(variant, seconds, connections, Math.round((1000 * connections) / rate));

/**
 * Runs wrk. wrk does not report exact statuses. wrk reports how many responses have a status of 400 or more. Therefore, the exact status of one
 * response is checked before the run.
 */
async function send(variant: Variant, seconds: number, connections: number, meanWaitMs: number): Promise<Run> {
  needDebian({ "/usr/bin/wrk": "wrk" });
  const { name, url, keys, status, pids, neverRepeats = false, bodies = [], headers = {} } = variant;
  const first = await fetch(url, {
    method: bodies.length > 0 ? "POST" : "GET",
    headers: { Authorization: `Bearer ${keys[0]}`, "CF-Connecting-IP": "198.51.100.7", "Content-Type": "application/json", ...headers },
    ...(bodies[0] !== undefined && { body: bodies[0] }),
  });
  await first.arrayBuffer();
  if (first.status !== status) throw new Error(`${name} answered ${first.status}`);
  const options = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "10s", "-s", join(import.meta.dirname, "load.lua")];
  const further = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const before = cpuMsOf(pids());
  const { stdout } = await execFileAsync("/usr/bin/wrk", [
    ...options,
    ...further,
    url,
    "--",
    String(meanWaitMs),
    String(neverRepeats),
    String(keys.length),
    ...keys,
    ...bodies,
  ]);
  const cpuMs = cpuMsOf(pids()) - before;
  const { requests, seconds: took, refused, failed, p50, p99, withinMs } = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Told;
  if (requests === 0 || failed > 0 || refused !== (status < 400 ? 0 : requests)) throw new Error(`${name} answered: ${stdout}`);
  return { requests, requestsPerSecond: requests / took, cpuMs: cpuMs / requests, p50, p99, withinMs };
}

/** The output of load.lua. `seconds` is the actual duration of the run. */
type Told = Record<"requests" | "seconds" | "refused" | "failed" | "p50" | "p99", number> & Pick<Run, "withinMs">;

/** Returns the total CPU time of processes since their start, in milliseconds. The total includes user time and system time. */
export function cpuMsOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const fields = statOf(pid);
    return sum + ((Number(fields[11]) + Number(fields[12])) * 1000) / clockTicksPerSecond;
  }, 0);
}

/** Returns the id of a process and the ids of all its descendants. */
export function withChildren(pid: number): number[] {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => [Number(name), Number(statOf(Number(name))[1] ?? 0)] as const);
  const all = [pid];
  for (const known of all) all.push(...parents.flatMap(([child, parent]) => (parent === known ? [child] : [])));
  return all;
}

/** Returns the fields that follow the process name in /proc/PID/stat. If the process has ended, returns an empty array. */
function statOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  } catch {
    return [];
  }
}

/** Returns the smallest value that is larger than a share of all values. */
export const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(share * values.length)] ?? Number.NaN;

/** Returns the median. For an even number of values, the median is the mean of the two middle values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? Number.NaN;
  return (at(Math.floor((sorted.length - 1) / 2)) + at(Math.ceil((sorted.length - 1) / 2))) / 2;
}
