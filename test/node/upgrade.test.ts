/** @module-tag long */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Miniflare } from "miniflare";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { newSecretKey } from "../../src/credentials/key-format.ts";
import { hashOf } from "../../src/crypto/hash.ts";
import { scopes } from "../../src/keys/scopes.ts";
import { type Bundles, bundle, migrate, type Release, startRelease } from "./releases.ts";

// The next release finds what the last one left: its rows, the state of its objects, and its messages while both run. For one release it also
// holds the other way round. A migration comes before the release that needs it.

let bundles: Bundles;
let state: string;
let receiver: Server;
let hook: string;
const received: { type: string; headers: Record<string, string>; body: string }[] = [];

const account = "acc_019a1b2c3d4e7f8091a2b3c4d5e6f701";
const keyId = "key_0000000000000000";
const key = newSecretKey(keyId, { name: "a", secret: "a-secret-of-the-upgrade-tests".padEnd(40, "-") });
let secret: string;
let count = 0;

async function api(worker: Miniflare, method: string, path: string, body?: object, own = key) {
  const response = await worker.dispatchFetch(`http://localhost:8787/api/v1${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${own}`,
      "Content-Type": "application/json",
      ...(method === "POST" && { "Idempotency-Key": `once-${count++}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: what a stranger's client sees has no type
  return { status: response.status, headers: response.headers, body: (text === "" ? null : JSON.parse(text)) as any };
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Everything that a client does, on the Worker of a release: each part works, is logged, counted and delivered. */
async function goesOn(worker: Miniflare, title: string): Promise<void> {
  const before = Number((await api(worker, "GET", "/me")).headers.get("X-RateLimit-Used"));
  const user = await api(worker, "POST", "/users", { name: title, email: `${title.replaceAll(" ", "-")}@example.com` });
  const task = await api(worker, "POST", "/tasks", { title, assignee_id: user.body.id });
  expect([user.status, task.status]).toEqual([201, 201]);
  expect((await api(worker, "PATCH", `/tasks/${task.body.id}`, { status: "done" })).status).toBe(200);
  const made = await api(worker, "POST", "/keys", { name: title, scopes: ["tasks:read"] });
  expect((await api(worker, "GET", "/tasks", undefined, made.body.secret_key)).status).toBe(200);
  const rotated = await api(worker, "POST", `/keys/${made.body.id}/rotate`, { overlap_seconds: 60 });
  for (const each of [made.body.secret_key, rotated.body.secret_key])
    expect((await api(worker, "GET", "/tasks", undefined, each)).status).toBe(200);
  expect((await api(worker, "DELETE", `/keys/${made.body.id}`)).status).toBe(204);
  expect((await api(worker, "GET", "/tasks", undefined, rotated.body.secret_key)).body.code).toBe("revoked_key");
  const requestId = (await api(worker, "GET", `/tasks?q=${encodeURIComponent(title)}`)).headers.get("X-Request-Id");
  const used = Number((await api(worker, "GET", "/me")).headers.get("X-RateLimit-Used"));
  // Eight by this key, with the count of either release.
  expect(used - before).toBe(8);
  await until(async () => (await api(worker, "GET", `/activity/${requestId}`)).status === 200);
  await until(async () => received.some(({ type, body }) => type === "task.completed" && body.includes(title)));
  const delivered = received.find(({ body }) => body.includes(title));
  expect(new Webhook(secret).verify(delivered?.body ?? "", delivered?.headers ?? {})).toBeTruthy();
  const usage = await api(worker, "GET", "/usage?window=24h");
  expect(usage.body.total_requests.value).toBeGreaterThan(0);
  const jobs = await (await worker.getWorker("front")).scheduled({ cron: "* * * * *" });
  expect(jobs.outcome).toBe("ok");
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let waited = 0; waited < 10_000; waited += 50) {
    if (await holds()) return;
    await sleep(50);
  }
  throw new Error("it did not come to hold");
}

const titles: string[] = [];

/** Does it on a Worker that is started for it, and finds all that was there before. */
async function on(release: Release, title: string, objectsOf: Release = release): Promise<void> {
  const worker = await startRelease(bundles, state, release, objectsOf);
  try {
    for (const earlier of titles) {
      const { body } = await api(worker, "GET", `/tasks?q=${encodeURIComponent(earlier)}`);
      expect(body.data.map((task: { title: string }) => task.title)).toEqual([earlier]);
    }
    await goesOn(worker, title);
    titles.push(title);
  } finally {
    await worker.dispose();
  }
}

beforeAll(async () => {
  if (!inject("isLong")) return;
  bundles = await bundle();
  state = mkdtempSync(join(tmpdir(), "upgrade-"));
  receiver = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    received.push({ type: JSON.parse(body).type, headers: request.headers as Record<string, string>, body });
    response.end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
});

afterAll(async () => {
  receiver?.close();
  bundles?.remove();
  if (state) rmSync(state, { recursive: true, force: true });
});

describe.runIf(inject("isLong"))("From the last release to the working tree", () => {
  it("the released Worker goes on with the tables of the next one", async () => {
    const worker = await startRelease(bundles, state, "released");
    try {
      await migrate(worker, bundles.projects.released);
      const database = await worker.getD1Database("DB", "front");
      const now = Date.now();
      await database.batch([
        database.prepare("INSERT INTO accounts (id, name, email, created_at) VALUES (?, 'Acme', 'ops@acme.dev', ?)").bind(account, now),
        database
          .prepare(
            `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, version, pushed_version, revision, created_at, updated_at)
            VALUES (?, ?, 'First key', ?, ?, ?, 'active', 5000, '[]', 1, 1, 'r', ?, ?)`,
          )
          .bind(keyId, account, key.slice(-4), hashOf(key), JSON.stringify(scopes), now, now),
      ]);
      const webhook = await api(worker, "POST", "/webhooks", { url: hook, event_types: ["task.completed", "task.created"] });
      expect(webhook.status).toBe(201);
      secret = webhook.body.secret;
      await goesOn(worker, "released on its own tables");
      titles.push("released on its own tables");
      await migrate(worker, bundles.projects.next, 1);
      await goesOn(worker, "released on the next tables");
      titles.push("released on the next tables");
    } finally {
      await worker.dispose();
    }
  });

  it("the next Worker finds all that the released one has left, its objects included", () => on("next", "next on what was left"));

  it("the next Worker asks objects of the released one", () => on("next", "next asks released objects", "released"));

  it("the released Worker asks objects of the next one", () => on("released", "released asks next objects", "next"));

  it("the released Worker goes on with what the next one has left: a release can be rolled back", () =>
    on("released", "released after a rollback"));

  it("the next Worker goes on after that", () => on("next", "next again"));

  it("a message that the released Worker has queued is delivered by the next one", async () => {
    const worker = await startRelease(bundles, state, "next");
    try {
      const task = await api(worker, "POST", "/tasks", { title: "Queued before" });
      await until(async () => received.some(({ body }) => body.includes(task.body.id)));
      const database = await worker.getD1Database("DB", "front");
      const delivery = await database.prepare("SELECT id FROM deliveries ORDER BY id DESC LIMIT 1").first<{ id: string }>();
      await database.prepare("UPDATE deliveries SET status = 'pending', next_attempt_at = 0, reserved_until = 0").run();
      const before = received.length;
      // As 0.1.0 writes it.
      const queue = await worker.getQueueProducer<{ deliveryId: string }>("DELIVERIES", "front");
      await queue.send({ deliveryId: delivery?.id ?? "" });
      await until(async () => received.length > before);
    } finally {
      await worker.dispose();
    }
  });
});
