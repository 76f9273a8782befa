import { globSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { heldMiB, inspect, type Session } from "../../scripts/inspector.ts";
import { type Receiver, startReceiver } from "../../scripts/receiving.ts";
import { freePort, run } from "../node/project.ts";
import { type RunningWorker, startWorker } from "../node/worker.ts";

// `npm run soak`: traffic of every kind for half an hour (SOAK_MINUTES for another time). There is no server error, memory stays flat, each
// request is logged once, and each event is delivered.

const minutes = Number(process.env.SOAK_MINUTES || 30);
const perSecond = 15;

let worker: RunningWorker;
let receiver: Receiver;
let account: string;
let endsAt: number;
let isolate: Session;

/** By id: the requests of real keys, which the log must have once each. */
const requests = new Set<string>();
/** Titles of tasks whose events must arrive. */
const titles = new Set<string>();
const wrong: string[] = [];
const done = new Map<string, number>();

const origin = () => `http://localhost:${worker.port}`;

interface Asked {
  method?: string;
  path: string;
  key?: string;
  body?: object;
  headers?: Record<string, string>;
}

/**
 * One request: noted as wrong where the service failed, and as to be logged where it came with a real key. `isOurs`: whether the key is one of
 * the account's.
 */
async function ask({ method = "GET", path, key, body, headers = {} }: Asked, isOurs = key !== undefined) {
  const response = await fetch(origin() + path, {
    method,
    redirect: "manual",
    headers: { ...(key && { Authorization: `Bearer ${key}` }), ...(body && { "Content-Type": "application/json" }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.status >= 500) wrong.push(`${method} ${path}: ${response.status} ${text.slice(0, 200)}`);
  if (isOurs) requests.add(response.headers.get("X-Request-Id") ?? "");
  const name = `${method} ${path.replace(/_[0-9A-Za-z]{16,}/, "_..").split("?")[0]}`;
  done.set(name, (done.get(name) ?? 0) + 1);
  const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
  // biome-ignore lint/suspicious/noExplicitAny: what a stranger's client sees has no type
  return { status: response.status, body: (isJson && text ? JSON.parse(text) : null) as any };
}

/** Does something again and again until the time is over, one after the other. */
async function again(pauseMs: number, work: (turn: number) => Promise<unknown>): Promise<void> {
  for (let turn = 0; Date.now() < endsAt; turn++) {
    await work(turn).catch((error: unknown) => wrong.push(String(error)));
    await sleep(pauseMs);
  }
}

async function useApi(turn: number, loop: number): Promise<void> {
  const { key } = worker;
  const title = `Soak ${loop} ${turn}`;
  const round = Math.floor(turn / 8);
  const kinds: (() => Promise<unknown>)[] = [
    async () => {
      const { status, body } = await ask({ method: "POST", path: "/api/v1/tasks", key, body: { title } });
      if (status === 201) titles.add(title);
      if (round % 4 === 0) await ask({ method: "PATCH", path: `/api/v1/tasks/${body.id}`, key, body: { status: "done" } });
      if (round % 8 === 0) await ask({ method: "DELETE", path: `/api/v1/tasks/${body.id}`, key });
    },
    () => ask({ path: "/api/v1/tasks?limit=5", key }),
    () => ask({ path: "/api/v1/users", key }),
    () => ask({ path: "/api/v1/me", key }),
    () => ask({ path: "/api/v1/tasks/tsk_none", key }),
    () => ask({ path: "/api/v1/me", key: "dvo_0000000000000000_0000000000000000000000000000000000000000" }, false),
    () => ask({ path: "/api/v1/activity?limit=5", key }),
    () => ask({ path: turn % 10 === 0 ? "/api/v1/analytics" : "/api/v1/usage", key }),
  ];
  await kinds[turn % kinds.length]?.();
}

/** A key's life: each step holds when it has returned. */
async function liveOfKey(turn: number): Promise<void> {
  const { key } = worker;
  const made = await ask({ method: "POST", path: "/api/v1/keys", key, body: { name: `Soak ${turn}`, scopes: ["tasks:read"] } });
  const path = `/api/v1/keys/${made.body.id}`;
  const use = async (secret: string, status: number) => {
    const answer = await ask({ path: "/api/v1/tasks?limit=1", key: secret });
    if (answer.status !== status) wrong.push(`a key answered ${answer.status}, not ${status}`);
  };
  await use(made.body.secret_key, 200);
  await ask({ method: "PATCH", path, key, body: { status: "disabled" } });
  await use(made.body.secret_key, 401);
  await ask({ method: "PATCH", path, key, body: { status: "active" } });
  const rotated = await ask({ method: "POST", path: `${path}/rotate`, key, body: { overlap_seconds: 0 } });
  await use(rotated.body.secret_key, 200);
  await use(made.body.secret_key, 401);
  await ask({ method: "DELETE", path, key });
  await use(rotated.body.secret_key, 401);
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

beforeAll(async () => {
  const port = await freePort();
  worker = await startWorker({ inspector: port });
  isolate = await inspect(port);
  receiver = await startReceiver(0, () => {});
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
  `Traffic of every kind for ${minutes} minutes leaves no error, no growth, and nothing lost`,
  async () => {
    const own = { "Sec-Fetch-Site": "none" };
    const samples: number[] = [];
    const loops = 3;
    await Promise.all([
      ...Array.from({ length: loops }, (_, loop) => again((1000 * loops) / perSecond, (turn) => useApi(turn, loop))),
      again(1500, (turn) =>
        ask({ path: ["/", "/usage", "/keys", "/webhooks", "/activity", "/docs", "/settings/audit"][turn % 7] ?? "/", headers: own }),
      ),
      again(4000, liveOfKey),
      again(20_000, () => ask({ path: "/cdn-cgi/local/scheduled" })),
      // What the Worker itself holds. The process beside it, with wrangler's server and the local D1, grows by what those keep.
      again(5000, async () => samples.push(await heldMiB(isolate))),
      again(7000, () => ask({ path: "/health" })),
    ]);
    const sent = new Set(titles);
    for (let waited = 0; waited < 90_000; waited += 500) {
      for (const { body } of receiver.received.splice(0)) sent.delete(JSON.parse(body).data.title);
      if (sent.size === 0) break;
      await sleep(500);
    }
    const [early, late] = [median(samples.slice(samples.length / 4, samples.length / 2)), median(samples.slice((3 * samples.length) / 4))];
    const counts = [...done].toSorted(([, a], [, b]) => b - a).map(([name, count]) => `${String(count).padStart(7)}  ${name}`);
    console.log(
      `${counts.join("\n")}\n${requests.size} requests by keys, ${titles.size} events, the isolate held ${early.toFixed(1)} MiB, then ${late.toFixed(1)} MiB`,
    );
    expect(wrong).toEqual([]);
    expect([...sent]).toEqual([]);
    expect(late, `it held ${samples.map((each) => each.toFixed(1)).join(", ")} MiB`).toBeLessThan(1.1 * early + 1);

    // What was logged, as the database has it.
    await sleep(3000);
    const logged = new Map<string, number>();
    for (const file of globSync(join(worker.folder, ".wrangler/state/v3/d1/*/*.sqlite"))) {
      const database = new DatabaseSync(file, { readOnly: true });
      const [table] = database.prepare("SELECT name FROM sqlite_master WHERE name = 'activity'").all();
      if (table)
        for (const { id, count } of database.prepare("SELECT id, count FROM activity WHERE account_id = ?").all(account) as {
          id: string;
          count: number;
        }[])
          logged.set(id, (logged.get(id) ?? 0) + count);
      database.close();
    }
    // Refusals of a key within one second share an entry, whose count says so.
    const total = [...logged.values()].reduce((sum, count) => sum + count, 0);
    // Those that the preparation made: /me, and the webhook.
    const prepared = 2;
    expect([total, [...logged.keys()].filter((id) => !requests.has(id)).length]).toEqual([requests.size + prepared, prepared]);
  },
  (minutes + 4) * 60_000,
);
