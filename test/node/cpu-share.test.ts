/** @module-tag process */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, inject, it, vi } from "vitest";
import { statusOf } from "../../scripts/dev-worker.ts";
import { bundleOf, startBundled } from "./bundled-worker.ts";
import { copyProject, freePort, removeProject, run } from "./project.ts";

// Measures the decisions of one account while another account, with the 124,563 requests of the demo, opens 24 connections of a page or an export.
// The long form measures all pages and exports. It needs a machine that does nothing else, so it has a command of its own: npm run test:cpu-share

const connections = 24;
const maxRatio = 3;
/** Each round measures the decisions alone and beside the connections. A pause of the whole machine affects one round, and not the median of the rounds. */
const fewestRounds = 3;
/** While the ratio is too high, further rounds show whether the connections cause it, which affects all rounds, or another program, which affects some. */
const mostRounds = 9;
const seconds = 2;
const pauseMs = 15;

let folder: string;
let worker: ChildProcess;
let origin: string;
let demoId: string;
let owner: string;
let demoKey: string;
let verify: () => Promise<number>;
const clocks: string[] = [];

const operator = () => ({ Authorization: `Bearer ${owner}` });
const pages = () => ({ "Sec-Fetch-Site": "none", Cookie: `account=${demoId}`, "CF-Connecting-IP": "198.51.100.9" });
const api = () => ({ Authorization: `Bearer ${demoKey}` });

/** Sends a request. Returns the body of the response. Throws if the status is not 200 or 201. */
function send(method: string, path: string, headers: Record<string, string>, body?: object): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(origin + path, { method, headers: { ...headers, "Content-Type": "application/json" } }, (response) => {
      let text = "";
      response.on("data", (chunk) => (text += chunk));
      response.once("end", () => ((response.statusCode ?? 0) > 201 ? reject(new Error(`${path}: ${text}`)) : resolve(text)));
    });
    sent.once("error", reject).end(body && JSON.stringify(body));
  });
}

const team = async (method: string, path: string, body?: object) => JSON.parse(await send(method, `/team/v1${path}`, operator(), body));

/** Returns the files in which Linux counts how long the Worker's thread and this thread have waited for a processor. Other systems have no such files. */
function schedulerFiles(pid: number): string[] {
  if (!existsSync("/proc/self/schedstat")) return [];
  const statOf = (process: string) => (existsSync(`/proc/${process}/stat`) ? readFileSync(`/proc/${process}/stat`, "utf8") : "");
  const processes = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const workerd = processes.filter((name) => new RegExp(`\\(workerd\\) \\S ${pid} `).test(statOf(name)));
  return [...workerd, String(process.pid)].map((name) => `/proc/${name}/task/${name}/schedstat`);
}

/** Returns how long the measured threads have waited for a processor, in milliseconds. Other programs on the machine cause these waits. */
const waitedMs = () => clocks.reduce((sum, file) => sum + Number(readFileSync(file, "utf8").split(" ")[1]) / 1e6, 0);

/** Returns the response times of decisions at an even pace, in milliseconds, without the time in which other programs had the processors. */
async function measure(): Promise<number[]> {
  const times: Promise<number>[] = [];
  for (const endsAt = performance.now() + 1000 * seconds; performance.now() < endsAt; ) {
    times.push(verify());
    await sleep(pauseMs);
  }
  return Promise.all(times);
}

const p99 = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.floor(0.99 * times.length)] ?? Number.NaN;

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** Calls `work` while 24 connections request a path. Returns the result, and the number of responses of each status. */
async function beside<Result>(path: string, headers: object, work: () => Promise<Result>) {
  const args = [join(import.meta.dirname, "open-connections.ts"), origin + path, String(connections), JSON.stringify(headers)];
  const others = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  others.stdout.on("data", (chunk) => (printed += chunk));
  await sleep(1000);
  const result = await work();
  others.kill("SIGTERM");
  await once(others, "close");
  return { result, statuses: JSON.parse(printed) as Record<string, number> };
}

beforeAll(async () => {
  folder = copyProject();
  const { code, err } = await run(process.execPath, [join(folder, "test/node/seed-demo.ts")], { cwd: folder });
  if (code !== 0) throw new Error(err);
  owner = /^OPERATOR_TOKEN="(.*)"$/m.exec(readFileSync(join(folder, ".dev.vars"), "utf8"))?.[1] ?? "";
  const port = await freePort();
  origin = `http://localhost:${port}`;
  worker = startBundled(await bundleOf(folder), port);
  await vi.waitUntil(() => statusOf(`${origin}/health`).then((status) => status !== null), { timeout: 60_000, interval: 100 });
  clocks.push(...schedulerFiles(worker.pid ?? 0));
  demoId = (await team("GET", "/accounts")).data[0].id;
  const { id } = await team("PUT", "/accounts/by-external-id/other", { name: "Other" });
  // The limits of both accounts are never reached: a denied request needs no share.
  const limit = 100_000_000;
  const keyOf = async (account: string, scopes?: readonly string[]): Promise<string> => {
    await team("PATCH", `/accounts/${account}`, { limit_ceiling: limit });
    return (await team("POST", `/accounts/${account}/keys`, { name: "CPU", scopes, limits: [{ per: "hour", limit }] })).secret_key;
  };
  demoKey = await keyOf(demoId, ["activity:read", "analytics:read", "keys:read", "usage:read", "users:read"]);
  const { token } = await team("POST", "/tokens", { name: "Other", scopes: ["verify"] });
  const body = { key: await keyOf(id), method: "GET", path: "/orders/7", route: "/orders/{id}", report: false };
  verify = async () => {
    const [startedAt, waited] = [performance.now(), waitedMs()];
    await send("POST", "/team/v1/verify", { Authorization: `Bearer ${token}` }, body);
    return performance.now() - startedAt - (waitedMs() - waited);
  };
  // V8 compiles the code first.
  for (let call = 0; call < 500; call++) await verify();
});

afterAll(async () => {
  const exited = once(worker, "exit");
  process.kill(-(worker.pid ?? 0), "SIGKILL");
  await exited;
  removeProject(folder);
});

const search = "/docs/search?q=the key of a request to the api is in";
type Kind = [name: string, path: () => string, headers: () => object];
const kinds: Kind[] = [
  ["the CSV of the request log", () => "/activity.csv", pages],
  [
    "the search of the documentation, without signing in",
    () => search.replaceAll(" ", "%20"),
    () => ({ "CF-Connecting-IP": "198.51.100.9" }),
  ],
  ["the overview", () => "/", pages],
];
const moreKinds: Kind[] = [
  ...[
    "/usage",
    "/activity",
    "/activity?status=5xx&path=/nope",
    "/usage.csv",
    "/keys",
    "/limits",
    "/webhooks",
    "/settings/audit",
    "/search?q=key",
  ].map((path): Kind => [path, () => path, pages]),
  ...[
    "/activity?limit=100",
    "/activity?limit=100&status=404",
    "/usage",
    "/usage/breakdown?by=route",
    "/analytics",
    "/users?limit=100&q=a",
    "/keys?limit=100",
  ].map((path): Kind => [`GET /api/v1${path}`, () => `/api/v1${path}`, api]),
  ["the export of an account", () => `/team/v1/accounts/${demoId}/export`, operator],
  ["the log of an account", () => `/team/v1/accounts/${demoId}/log`, operator],
  ["the status of the deployment", () => "/team/v1/status", operator],
];

it.each(inject("isLong") ? [...kinds, ...moreKinds] : kinds.slice(0, 2))(
  "24 connections of %s leave the decisions of another account at most three times their p99",
  { tags: ["long"] },
  async (_, path, headers) => {
    const [alone, together]: [number[], number[]] = [[], []];
    const statuses: Record<string, number> = {};
    const ratio = () => median(together) / median(alone);
    for (let round = 0; round < fewestRounds || (round < mostRounds && ratio() > maxRatio); round++) {
      alone.push(p99(await measure()));
      const { result, statuses: ofRound } = await beside(path(), headers(), measure);
      together.push(p99(result));
      for (const [status, count] of Object.entries(ofRound)) statuses[status] = (statuses[status] ?? 0) + count;
    }
    const [usual, loaded] = [median(alone).toFixed(1), median(together).toFixed(1)];
    console.log(`${path()}: p99 ${usual} ms alone, ${loaded} ms beside, ${alone.length} rounds, ${JSON.stringify(statuses)}`);
    expect(Object.keys(statuses).filter((status) => status !== "200" && status !== "503")).toEqual([]);
    expect(ratio()).toBeLessThanOrEqual(maxRatio);
  },
);

it("Downloads that their clients abort leave room for further ones", { tags: ["long"] }, async () => {
  for (let round = 0; round < 5; round++)
    await Promise.all(
      Array.from({ length: 20 }, () =>
        fetch(`${origin}/activity.csv`, { headers: pages(), signal: AbortSignal.timeout(20 + 10 * round) }).then(
          (response) => response.body?.cancel(),
          () => {},
        ),
      ),
    );
  const startedAt = performance.now();
  await vi.waitFor(async () => expect((await send("GET", "/usage.csv", pages())).slice(1, 6)).toBe("start"), {
    timeout: 20_000,
    interval: 200,
  });
  expect(performance.now() - startedAt).toBeLessThan(20_000);
});
