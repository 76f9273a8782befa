import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Receiver, startReceiver } from "../../scripts/receiving.ts";
import { freePort, run } from "../node/project.ts";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { heldMiB, inspect, type Session } from "./inspector.ts";

// `npm run soak` sends requests of many kinds for half an hour. The variable SOAK_MINUTES sets another duration. The test fails if a
// request gets a server error, or if memory grows. The test also fails if a request is not logged exactly once, or if an event is not
// delivered.

const minutes = Number(process.env.SOAK_MINUTES || 30);
const perSecond = 15;

let worker: RunningWorker;
let receiver: Receiver;
let account: string;
let endsAt: number;
let isolate: Session;

/** The ids of all requests that the test sends with keys of the account. The log must record each of these requests exactly once. */
const requestIds = new Set<string>();
/** The titles of the tasks whose events must be delivered. */
const titles = new Set<string>();
const problems: string[] = [];
/** The number of requests for each method and path. */
const requestCounts = new Map<string, number>();

const origin = () => `http://localhost:${worker.port}`;

interface RequestOptions {
  method?: string;
  path: string;
  key?: string;
  body?: object;
  headers?: Record<string, string>;
}

/**
 * Sends a request. Records a server error as a problem. If the key belongs to the account, `isLogged` is true, and the log must contain the
 * request.
 */
async function send({ method = "GET", path, key, body, headers = {} }: RequestOptions, isLogged = key !== undefined) {
  const response = await fetch(origin() + path, {
    method,
    redirect: "manual",
    headers: { ...(key && { Authorization: `Bearer ${key}` }), ...(body && { "Content-Type": "application/json" }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.status >= 500) problems.push(`${method} ${path}: ${response.status} ${text.slice(0, 200)}`);
  if (isLogged) requestIds.add(response.headers.get("X-Request-Id") ?? "");
  const name = `${method} ${path.replace(/_[0-9A-Za-z]{16,}/, "_..").split("?")[0]}`;
  requestCounts.set(name, (requestCounts.get(name) ?? 0) + 1);
  const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
  // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
  return { status: response.status, body: (isJson && text ? JSON.parse(text) : null) as any };
}

/** Calls `work` again and again until the test ends. A pause after each call limits the rate of the requests. */
async function repeat(pauseMs: number, work: (turn: number) => Promise<unknown>): Promise<void> {
  for (let turn = 0; Date.now() < endsAt; turn++) {
    await work(turn).catch((error: unknown) => problems.push(String(error)));
    await sleep(pauseMs);
  }
}

/**
 * Runs one of eight kinds of requests. `turn` selects the kind. The first kind always creates a task, and sometimes also changes or deletes
 * the task.
 */
async function callApi(turn: number, loop: number): Promise<void> {
  const { key } = worker;
  const title = `Soak ${loop} ${turn}`;
  const round = Math.floor(turn / 8);
  const kinds: (() => Promise<unknown>)[] = [
    async () => {
      const { status, body } = await send({ method: "POST", path: "/api/v1/tasks", key, body: { title } });
      if (status === 201) titles.add(title);
      if (round % 4 === 0) await send({ method: "PATCH", path: `/api/v1/tasks/${body.id}`, key, body: { status: "done" } });
      if (round % 8 === 0) await send({ method: "DELETE", path: `/api/v1/tasks/${body.id}`, key });
    },
    () => send({ path: "/api/v1/tasks?limit=5", key }),
    () => send({ path: "/api/v1/users", key }),
    () => send({ path: "/api/v1/me", key }),
    () => send({ path: "/api/v1/tasks/tsk_none", key }),
    () => send({ path: "/api/v1/me", key: "dvo_0000000000000000_0000000000000000000000000000000000000000" }, false),
    () => send({ path: "/api/v1/activity?limit=5", key }),
    () => send({ path: turn % 10 === 0 ? "/api/v1/analytics" : "/api/v1/usage", key }),
  ];
  await kinds[turn % kinds.length]?.();
}

/** Creates, disables, enables, rotates and revokes a key. Each change must be in effect when the response to the change arrives. */
async function changeKey(turn: number): Promise<void> {
  const { key } = worker;
  const created = await send({ method: "POST", path: "/api/v1/keys", key, body: { name: `Soak ${turn}`, scopes: ["tasks:read"] } });
  const path = `/api/v1/keys/${created.body.id}`;
  const use = async (secretKey: string, status: number) => {
    const response = await send({ path: "/api/v1/tasks?limit=1", key: secretKey });
    if (response.status !== status) problems.push(`a request with a key got ${response.status} instead of ${status}`);
  };
  await use(created.body.secret_key, 200);
  await send({ method: "PATCH", path, key, body: { status: "disabled" } });
  await use(created.body.secret_key, 401);
  await send({ method: "PATCH", path, key, body: { status: "active" } });
  const rotated = await send({ method: "POST", path: `${path}/rotate`, key, body: { overlap_seconds: 0 } });
  await use(rotated.body.secret_key, 200);
  await use(created.body.secret_key, 401);
  await send({ method: "DELETE", path, key });
  await use(rotated.body.secret_key, 401);
}

/** Reads the log of the account. Returns the ids of the entries, and the number of requests that each entry represents. */
async function readLoggedCounts(): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (let path: string | null = "/activity?limit=100"; path; ) {
    const { data, next_cursor } = (await worker.api("GET", path)) as { data: { id: string; count: number }[]; next_cursor: string | null };
    for (const { id, count } of data) counts.set(id, count);
    path = next_cursor === null ? null : `/activity?limit=100&cursor=${next_cursor}`;
  }
  return counts;
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

beforeAll(async () => {
  const port = await freePort();
  worker = await startWorker({ inspector: port });
  isolate = await inspect(port);
  receiver = await startReceiver(0, () => {}, Number.POSITIVE_INFINITY);
  account = (await worker.api("GET", "/me")).account.id;
  const env = { ...process.env, PORT: String(worker.port) };
  const operator = (...args: string[]) => run("npm", ["run", "--silent", "operator", "--", ...args], { cwd: worker.folder, env });
  await operator("accounts", "ceiling", account, "10000000");
  const { data } = JSON.parse((await operator("keys", "list", account, "--json")).out);
  expect((await operator("keys", "limit", data[0].id, "10000000")).code).toBe(0);
  await worker.api("POST", "/webhooks", { url: `${receiver.url}/`, event_types: ["task.created"] });
  endsAt = Date.now() + minutes * 60_000;
});

afterAll(async () => {
  await receiver?.stop();
  await worker?.stop();
});

it(
  `The Worker handles requests of many kinds for ${minutes} minutes without errors, memory growth or lost events`,
  async () => {
    const byAddressBar = { "Sec-Fetch-Site": "none" };
    const samples: number[] = [];
    const loops = 3;
    const pages = ["/", "/usage", "/keys", "/webhooks", "/activity", "/docs", "/settings/audit"];
    await Promise.all([
      ...Array.from({ length: loops }, (_, loop) => repeat((1000 * loops) / perSecond, (turn) => callApi(turn, loop))),
      repeat(1500, (turn) => send({ path: pages[turn % pages.length] ?? "/", headers: byAddressBar })),
      repeat(4000, changeKey),
      repeat(20_000, () => send({ path: "/cdn-cgi/local/scheduled" })),
      // Measures the memory of the Worker's isolate, not of the whole wrangler process. The process also contains the local D1, and the
      // memory of D1 grows with its data.
      repeat(5000, async () => samples.push(await heldMiB(isolate))),
      repeat(7000, () => send({ path: "/health" })),
    ]);
    const undelivered = new Set(titles);
    await vi
      .waitUntil(
        () => {
          for (const { body } of receiver.received.splice(0)) undelivered.delete(JSON.parse(body).data.title);
          return undelivered.size === 0;
        },
        { timeout: 90_000, interval: 500 },
      )
      .catch(() => {});
    const [early, late] = [median(samples.slice(samples.length / 4, samples.length / 2)), median(samples.slice((3 * samples.length) / 4))];
    const counts = [...requestCounts].toSorted(([, a], [, b]) => b - a).map(([name, count]) => `${String(count).padStart(7)}  ${name}`);
    console.log(
      `${counts.join("\n")}\n${requestIds.size} requests by keys, ${titles.size} events. ` +
        `Memory of the isolate: ${early.toFixed(1)} MiB, later ${late.toFixed(1)} MiB`,
    );
    expect(problems).toEqual([]);
    expect([...undelivered]).toEqual([]);
    expect(late, `the samples are ${samples.map((each) => each.toFixed(1)).join(", ")} MiB`).toBeLessThan(1.1 * early + 1);

    // The test cannot observe when the log writer has finished. The test therefore waits for a fixed time, to find entries that are written
    // twice.
    await sleep(3000);
    const logged = await readLoggedCounts();
    // All denied requests of a key within one second share one log entry. The entry states the number of these requests.
    const total = [...logged.values()].reduce((sum, count) => sum + count, 0);
    // Before the test, `beforeAll` sent two requests: one to read /me, and one to create the webhook.
    const preparation = 2;
    expect([total, [...logged.keys()].filter((id) => !requestIds.has(id)).length]).toEqual([requestIds.size + preparation, preparation]);
  },
  (minutes + 4) * 60_000,
);
