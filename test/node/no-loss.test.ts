/**
 * @module-tag long
 * @module-tag process
 */
import type { ChildProcess } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, inject, it, vi } from "vitest";
import { isResponding } from "../../scripts/dev-worker.ts";
import { type Received, type Receiver, signatureErrorOf, startReceiver } from "../../scripts/receiving.ts";
import { bundleOf, startBundled } from "./bundled-worker.ts";
import { copyOf, freePort, removeProject } from "./project.ts";

// Creates tasks, receives the events of the tasks, and meanwhile kills the Worker's runtime with SIGKILL. The long form of the test kills
// the runtime at each step of a delivery and at random times. Tasks are created until the last kill, however long the kills take.

const { fewestChanges, pauseBetweenKills, rounds } = inject("isLong")
  ? { fewestChanges: 1000, pauseBetweenKills: 40, rounds: 3 }
  : { fewestChanges: 100, pauseBetweenKills: 12, rounds: 1 };
const concurrency = 8;
const leaseMs = 60_000;

/** The moments at which the runtime is killed. The test recognizes the first four moments by a response or a webhook request. */
const allMoments = ["after the commit", "after the wake-up", "after the claim", "after the POST", "during the sweep", "at random"] as const;
const moments = inject("isLong") ? allMoments : (["after the claim"] as const);

let folder: string;
let port: number;
/** The path of the file that contains the Worker's options. */
let bundle: string;
let worker: ChildProcess;
let receiver: Receiver;
let keys: string[];
let secret: string;
/**
 * The signature errors of all webhook requests. The test checks each signature as soon as the request arrives, because a signature is valid
 * for only five minutes.
 */
const signatureErrors: string[] = [];
let startedAt: number;

/** The test calls this function after each created task. If no kill is due, the function does nothing. */
let onResponse = () => {};
/** The test calls this function after each webhook request. If no kill is due, the function does nothing. */
let onReceived = () => {};

const base = () => `http://localhost:${port}`;

async function startWorker(): Promise<void> {
  startedAt = Date.now();
  worker = startBundled(bundle, port);
  await vi.waitUntil(() => isResponding(`${base()}/health`), { timeout: 60_000, interval: 50 });
}

async function killWorker(): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return;
  const exited = new Promise((resolve) => worker.once("exit", resolve));
  process.kill(-(worker.pid ?? 0), "SIGKILL");
  await exited;
}

beforeAll(async () => {
  const project = inject("made");
  folder = copyOf(project.folder);
  bundle = await bundleOf(folder);
  port = await freePort();
  const check = (received: Received) => {
    const error = signatureErrorOf(received, secret);
    if (error !== null) signatureErrors.push(error);
    onReceived();
  };
  receiver = await startReceiver(0, check, Number.POSITIVE_INFINITY);
  await startWorker();
  const post = async (path: string, body: unknown) => {
    const response = await fetch(`${base()}/api/v1${path}`, {
      method: "POST",
      headers: headersOf(project.key),
      body: JSON.stringify(body),
    });
    return response.json();
  };
  keys = [project.key];
  // If the guard of a key is killed, the requests that the guard had reserved are lost. Several keys therefore share the load.
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

/** Creates one task. Retries with the same Idempotency-Key until the Worker returns 201. */
async function createTask(index: number): Promise<void> {
  const headers = { ...headersOf(keys[index % keys.length] ?? ""), "Idempotency-Key": `change-${index}` };
  for (;;) {
    try {
      const response = await fetch(`${base()}/api/v1/tasks`, {
        method: "POST",
        headers,
        body: JSON.stringify({ title: `Change ${index}` }),
      });
      if (response.status === 201) return onResponse();
      if (response.status < 500) throw new TypeError(`the service returned ${response.status}: ${await response.text()}`);
    } catch (error) {
      if (error instanceof TypeError && error.message.startsWith("the service")) throw error;
    }
    // Waits before the next attempt, as a client would.
    await sleep(100);
  }
}

const sweep = () => fetch(`${base()}/cdn-cgi/local/scheduled`).catch(() => {});

/**
 * Waits until the moment of the next kill. For some moments, the test adds a short delay, because the test cannot observe a wake-up or the
 * end of a POST.
 */
function reach(moment: (typeof allMoments)[number]): Promise<void> {
  return new Promise((resolve) => {
    // For twenty seconds after a kill, the claims of the killed Worker occupy the webhook's slots for concurrent attempts. After this time,
    // a sweep starts further deliveries.
    const sweeping = setInterval(sweep, 1000);
    const reached = () => {
      clearInterval(sweeping);
      resolve();
    };
    if (moment === "after the commit") onResponse = reached;
    else if (moment === "after the wake-up") onResponse = () => void setTimeout(reached, 3);
    else if (moment === "after the claim") onReceived = reached;
    else if (moment === "after the POST") onReceived = () => void setTimeout(reached, 2);
    else {
      if (moment === "during the sweep") sweep();
      setTimeout(reached, Math.random() * (moment === "at random" ? 300 : 40));
    }
  });
}

/** Reads the files of D1. Returns the number of deliveries that the killed Worker had claimed without recording a result. */
function countClaimedDeliveries(): number {
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

/** Returns the ids of all `task.created` events. */
async function readEventIds(): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor = ""; ; ) {
    const response = await fetch(`${base()}/api/v1/events?type=task.created&limit=100${cursor}`, { headers: headersOf(keys[0] ?? "") });
    const page = (await response.json()) as { data: { id: string }[]; next_cursor: string | null };
    ids.push(...page.data.map(({ id }) => id));
    if (page.next_cursor === null) return ids;
    cursor = `&cursor=${encodeURIComponent(page.next_cursor)}`;
  }
}

it("No event is lost if the runtime is killed, and only deliveries in flight are sent twice", async () => {
  let changes = 0;
  let isOver = false;
  const work = Array.from({ length: concurrency }, async () => {
    while (!isOver || changes < fewestChanges) {
      await createTask(changes++);
      // The second half of the changes runs more slowly, so that a slow machine does not create many more than the fewest.
      if (!isOver && changes > fewestChanges / 2) await sleep(fewestChanges / 2);
    }
  });
  let inFlight = 0;
  let kills = 0;
  for (let round = 0; round < rounds; round++)
    for (const moment of moments) {
      // A random pause before each kill varies the work that the kill interrupts.
      await sleep(pauseBetweenKills * Math.random());
      await reach(moment);
      [onResponse, onReceived] = [() => {}, () => {}];
      await killWorker();
      inFlight += countClaimedDeliveries();
      kills++;
      await startWorker();
    }
  isOver = true;
  await Promise.all(work);

  const ids = await readEventIds();
  expect(ids).toHaveLength(changes);
  const findMissing = () => {
    const arrived = new Set(receiver.received.map(({ headers }) => headers["webhook-id"]));
    return ids.filter((id) => !arrived.has(id));
  };
  // The claims of a killed Worker expire after a minute.
  await vi.waitFor(
    async () => {
      if (findMissing().length > 0) await sweep();
      expect(findMissing()).toEqual([]);
    },
    { timeout: 150_000, interval: 1000 },
  );
  const byId = Map.groupBy(receiver.received, ({ headers }: Received) => headers["webhook-id"] ?? "");
  for (const requests of byId.values()) expect(new Set(requests.map(({ body }) => body)).size).toBe(1);
  expect(signatureErrors).toEqual([]);
  const duplicates = receiver.received.length - byId.size;
  console.log(`${changes} changes, ${kills} kills, ${inFlight} deliveries in flight, ${duplicates} duplicate requests`);
  expect(byId.size).toBe(changes);
  expect(duplicates).toBeLessThanOrEqual(inFlight);
}, 1_800_000);
