/** @module-tag long */
import type { ChildProcess } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { answers } from "../../scripts/dev-worker.ts";
import { faultOf, type Received, type Receiver, startReceiver } from "../../scripts/receiving.ts";
import { bundleOf, startBundled } from "./bundled-worker.ts";
import { copyOf, freePort, removeProject } from "./project.ts";

// The real Worker makes changes and sends their events, while its whole runtime is killed with SIGKILL, at random and at each
// step of an event's way.

const { changes, pauseBetweenKills, rounds } = inject("isLong")
  ? { changes: 2000, pauseBetweenKills: 40, rounds: 7 }
  : { changes: 100, pauseBetweenKills: 12, rounds: 1 };
const atOnce = 8;
const leaseMs = 60_000;

/** When to kill: each is reached by what is seen from outside. */
const allPoints = ["after the commit", "after the wake-up", "after the claim", "after the POST", "during the sweep", "at random"] as const;
const points = inject("isLong") ? allPoints : (["after the claim"] as const);

let folder: string;
let port: number;
/** The file that the Worker is started with. */
let bundle: string;
let worker: ChildProcess;
let receiver: Receiver;
let keys: string[];
let secret: string;
/** What was found wrong with a request's signature, as it arrived: it is valid for five minutes alone. */
const faults: string[] = [];
let startedAt: number;

/** What to do at the next sight of it; set while a kill is due. */
let onAnswer = () => {};
let onReceived = () => {};

const base = () => `http://localhost:${port}`;

async function startWorker(): Promise<void> {
  startedAt = Date.now();
  worker = startBundled(bundle, port);
  while (!(await answers(`${base()}/health`))) await sleep(50);
}

async function killWorker(): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return;
  const gone = new Promise((resolve) => worker.once("exit", resolve));
  process.kill(-(worker.pid ?? 0), "SIGKILL");
  await gone;
}

beforeAll(async () => {
  const made = inject("made");
  folder = copyOf(made.folder);
  bundle = await bundleOf(folder);
  port = await freePort();
  receiver = await startReceiver(0, (received) => {
    const fault = faultOf(received, secret);
    if (fault !== null) faults.push(fault);
    onReceived();
  });
  await startWorker();
  const post = async (path: string, body: unknown) => {
    const response = await fetch(`${base()}/api/v1${path}`, { method: "POST", headers: headersOf(made.key), body: JSON.stringify(body) });
    return response.json();
  };
  keys = [made.key];
  // What a killed guard had reserved is lost to its key, so several share the work.
  for (let index = 1; index < 5; index++) {
    const key = await post("/keys", { name: `Key ${index}`, scopes: ["tasks:read", "tasks:write", "webhooks:read"] });
    keys.push((key as { secret_key: string }).secret_key);
  }
  const webhook = await post("/webhooks", { url: `${receiver.url}/`, event_types: ["task.created"] });
  ({ secret } = webhook as { secret: string });
});

afterAll(async () => {
  await killWorker();
  await receiver.stop();
  removeProject(folder);
});

const headersOf = (key: string) => ({ Authorization: `Bearer ${key}`, "Content-Type": "application/json" });

/** Makes a task, however often the Worker dies: once, since each try has the same Idempotency-Key. */
async function makeTask(index: number): Promise<void> {
  const headers = { ...headersOf(keys[index % keys.length] ?? ""), "Idempotency-Key": `change-${index}` };
  for (;;) {
    try {
      const response = await fetch(`${base()}/api/v1/tasks`, {
        method: "POST",
        headers,
        body: JSON.stringify({ title: `Change ${index}` }),
      });
      if (response.status === 201) return onAnswer();
      if (response.status < 500) throw new TypeError(`the service answered ${response.status}: ${await response.text()}`);
    } catch (error) {
      if (error instanceof TypeError && error.message.startsWith("the service")) throw error;
    }
    await sleep(100);
  }
}

const sweep = () => fetch(`${base()}/cdn-cgi/local/scheduled`).catch(() => {});

/** Waits until the Worker is where it is to be killed. */
function reach(point: (typeof allPoints)[number]): Promise<void> {
  return new Promise((resolve) => {
    // What the last kill has left claimed takes up room for twenty seconds; then the sweep goes on.
    const sweeping = setInterval(sweep, 1000);
    const reached = () => {
      clearInterval(sweeping);
      resolve();
    };
    if (point === "after the commit") onAnswer = reached;
    else if (point === "after the wake-up") onAnswer = () => void setTimeout(reached, 3);
    else if (point === "after the claim") onReceived = reached;
    else if (point === "after the POST") onReceived = () => void setTimeout(reached, 2);
    else {
      if (point === "during the sweep") sweep();
      setTimeout(reached, Math.random() * (point === "at random" ? 300 : 40));
    }
  });
}

/** Deliveries that the Worker that has just died had claimed and not recorded, as D1 has it on disk. */
function claimedNow(): number {
  for (const file of globSync(join(folder, ".wrangler/state/v3/d1/*/*.sqlite"))) {
    const database = new DatabaseSync(file);
    try {
      const isMain = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'deliveries'").get() !== undefined;
      if (!isMain) continue;
      const row = database
        .prepare("SELECT count(*) AS claimed FROM deliveries WHERE status = 'pending' AND claimed_until > ?")
        .get(startedAt + leaseMs);
      return Number(row?.claimed);
    } finally {
      database.close();
    }
  }
  throw new Error("there is no main database");
}

async function eventIds(): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor = ""; ; ) {
    const response = await fetch(`${base()}/api/v1/events?type=task.created&limit=100${cursor}`, { headers: headersOf(keys[0] ?? "") });
    const page = (await response.json()) as { data: { id: string }[]; next_cursor: string | null };
    ids.push(...page.data.map(({ id }) => id));
    if (page.next_cursor === null) return ids;
    cursor = `&cursor=${encodeURIComponent(page.next_cursor)}`;
  }
}

it("No event is lost, whenever the runtime is killed, and no more are doubled than were on their way", async () => {
  let next = 0;
  let isOver = false;
  const work = Array.from({ length: atOnce }, async () => {
    // The last changes wait for the last kill, so that there is always work to be interrupted.
    while (next < changes) {
      if (next >= changes - atOnce && !isOver) await sleep(20);
      else await makeTask(next++);
      if (!isOver && next > changes / 2) await sleep(changes / 2);
    }
  });
  let inFlight = 0;
  let kills = 0;
  for (let round = 0; round < rounds; round++)
    for (const point of points) {
      await sleep(pauseBetweenKills * Math.random());
      await reach(point);
      [onAnswer, onReceived] = [() => {}, () => {}];
      await killWorker();
      inFlight += claimedNow();
      kills++;
      await startWorker();
    }
  isOver = true;
  await Promise.all(work);

  const ids = await eventIds();
  expect(ids).toHaveLength(changes);
  const missing = () => {
    const arrived = new Set(receiver.received.map(({ headers }) => headers["webhook-id"]));
    return ids.filter((id) => !arrived.has(id));
  };
  // What was claimed by the dead is free again after a minute.
  for (const giveUpAt = Date.now() + 150_000; missing().length > 0 && Date.now() < giveUpAt; ) {
    await sweep();
    await sleep(1000);
  }
  expect(missing()).toEqual([]);
  const byId = Map.groupBy(receiver.received, ({ headers }: Received) => headers["webhook-id"] ?? "");
  for (const same of byId.values()) expect(new Set(same.map(({ body }) => body)).size).toBe(1);
  expect(faults).toEqual([]);
  const duplicates = receiver.received.length - byId.size;
  console.log(`${changes} changes, ${kills} kills, ${inFlight} deliveries in flight at them, ${duplicates} sent twice`);
  expect(byId.size).toBe(changes);
  expect(duplicates).toBeLessThanOrEqual(inFlight);
}, 1_800_000);
