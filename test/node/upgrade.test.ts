/** @module-tag long */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Miniflare } from "miniflare";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
import { newSecretKey } from "../../src/credentials/key-format.ts";
import { hashOf } from "../../src/crypto/hash.ts";
import { scopes } from "../../src/keys/scopes.ts";
import { type Bundles, bundle, migrate, operatorToken, type Release, startRelease } from "./releases.ts";

// A new release must work with the rows, Durable Objects and queue messages of the previous release, even while both releases run. If a
// release is rolled back, the previous release must work with the data of the new release. The migrations of a release run before the
// release is deployed.

let bundles: Bundles;
let state: string;
let receiver: Server;
let hook: string;
const received: { type: string; headers: Record<string, string>; body: string }[] = [];

const account = "acc_019a1b2c3d4e7f8091a2b3c4d5e6f701";
const keyId = "key_0000000000000000";
const key = newSecretKey(keyId, { name: "a", secret: "a-secret-of-the-upgrade-tests".padEnd(40, "-") });
let secret: string;
let posts = 0;

async function api(worker: Miniflare, method: string, path: string, body?: object, secretKey = key) {
  const response = await worker.dispatchFetch(`http://localhost:8787/api/v1${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${secretKey}`,
      "Content-Type": "application/json",
      ...(method === "POST" && { "Idempotency-Key": `once-${posts++}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
  return { status: response.status, headers: response.headers, body: (text === "" ? null : JSON.parse(text)) as any };
}

const wait = { timeout: 10_000, interval: 50 };

/** Inserts an account with one key into the main database of a release. */
async function insertAccount(worker: Miniflare): Promise<void> {
  const database = await worker.getD1Database("DB", "front");
  const now = Date.now();
  await database.batch([
    database.prepare("INSERT INTO accounts (id, name, email, created_at) VALUES (?, 'Acme', 'ops@acme.dev', ?)").bind(account, now),
    database
      .prepare(
        `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips,
          version, pushed_version, revision, created_at, updated_at)
        VALUES (?, ?, 'First key', ?, ?, ?, 'active', 5000, '[]', 1, 1, 'r', ?, ?)`,
      )
      .bind(keyId, account, key.slice(-4), hashOf(key), JSON.stringify(scopes), now, now),
  ]);
}

/** Sets all deliveries to pending, and makes them due now. Returns the id of the newest delivery. */
async function resetDeliveries(worker: Miniflare): Promise<string> {
  const database = await worker.getD1Database("DB", "front");
  const newest = await database.prepare("SELECT id FROM deliveries ORDER BY id DESC LIMIT 1").first<{ id: string }>();
  await database.prepare("UPDATE deliveries SET status = 'pending', next_attempt_at = 0, claimed_until = 0").run();
  return newest?.id ?? "";
}

/**
 * Sends requests to a Worker, and checks that they succeed, are counted and are logged. Also checks that the Worker delivers their events.
 */
async function expectWorks(worker: Miniflare, title: string): Promise<void> {
  const before = Number((await api(worker, "GET", "/me")).headers.get("X-RateLimit-Used"));
  const user = await api(worker, "POST", "/users", { name: title, email: `${title.replaceAll(" ", "-")}@example.com` });
  const task = await api(worker, "POST", "/tasks", { title, assignee_id: user.body.id });
  expect([user.status, task.status]).toEqual([201, 201]);
  expect((await api(worker, "PATCH", `/tasks/${task.body.id}`, { status: "done" })).status).toBe(200);
  const created = await api(worker, "POST", "/keys", { name: title, scopes: ["tasks:read"] });
  expect((await api(worker, "GET", "/tasks", undefined, created.body.secret_key)).status).toBe(200);
  const rotated = await api(worker, "POST", `/keys/${created.body.id}/rotate`, { overlap_seconds: 60 });
  for (const each of [created.body.secret_key, rotated.body.secret_key])
    expect((await api(worker, "GET", "/tasks", undefined, each)).status).toBe(200);
  expect((await api(worker, "DELETE", `/keys/${created.body.id}`)).status).toBe(204);
  expect((await api(worker, "GET", "/tasks", undefined, rotated.body.secret_key)).body.code).toBe("revoked_key");
  const requestId = (await api(worker, "GET", `/tasks?q=${encodeURIComponent(title)}`)).headers.get("X-Request-Id");
  const used = Number((await api(worker, "GET", "/me")).headers.get("X-RateLimit-Used"));
  // Since the count was first read, the key has sent eight requests. The count must be exact, even if different releases counted the
  // requests.
  expect(used - before).toBe(8);
  await vi.waitFor(async () => expect((await api(worker, "GET", `/activity/${requestId}`)).status).toBe(200), wait);
  await vi.waitUntil(() => received.some(({ type, body }) => type === "task.completed" && body.includes(title)), wait);
  const delivered = received.find(({ body }) => body.includes(title));
  expect(new Webhook(secret).verify(delivered?.body ?? "", delivered?.headers ?? {})).toBeTruthy();
  const usage = await api(worker, "GET", "/usage?window=24h");
  expect(usage.body.total_requests.value).toBeGreaterThan(0);
  const jobs = await (await worker.getWorker("front")).scheduled({ cron: "* * * * *" });
  expect(jobs.outcome).toBe("ok");
}

/** The titles of the tasks that earlier checks created. */
const titles: string[] = [];

/** Starts the Worker of a release, and checks that the Worker works. The Worker must also find the tasks of all earlier checks. */
async function expectReleaseWorks(release: Release, title: string, objectsOf: Release = release): Promise<void> {
  const worker = await startRelease(bundles, state, release, objectsOf);
  try {
    for (const earlier of titles) {
      const { body } = await api(worker, "GET", `/tasks?q=${encodeURIComponent(earlier)}`);
      expect(body.data.map((task: { title: string }) => task.title)).toEqual([earlier]);
    }
    await expectWorks(worker, title);
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

describe.runIf(inject("isLong"))("An upgrade from the last release to the working tree", () => {
  it("lets the released Worker work with the tables of the next release", async () => {
    const worker = await startRelease(bundles, state, "released");
    try {
      await migrate(worker, bundles.projects.released);
      await insertAccount(worker);
      const webhook = await api(worker, "POST", "/webhooks", { url: hook, event_types: ["task.completed", "task.created"] });
      expect(webhook.status).toBe(201);
      secret = webhook.body.secret;
      await expectWorks(worker, "released on its own tables");
      titles.push("released on its own tables");
      await migrate(worker, bundles.projects.next, bundles.projects.released);
      await expectWorks(worker, "released on the next tables");
      titles.push("released on the next tables");
    } finally {
      await worker.dispose();
    }
  });

  it("lets the next Worker work with the data and the objects of the released Worker", () =>
    expectReleaseWorks("next", "next on what was left"));

  it("lets the next Worker call objects of the released Worker", () =>
    expectReleaseWorks("next", "next asks released objects", "released"));

  it("lets the released Worker call objects of the next Worker", () =>
    expectReleaseWorks("released", "released asks next objects", "next"));

  it("can be rolled back: the released Worker works with the data of the next Worker", () =>
    expectReleaseWorks("released", "released after a rollback"));

  it("can be repeated after a rollback", () => expectReleaseWorks("next", "next again"));

  it("lets guards of both releases count the same windows, and puts a shared limit in force when all guards count it", async () => {
    /** Runs Workers of two releases, and gives what they do with a key. */
    const during = async <Result>(release: Release, objectsOf: Release, work: (worker: Miniflare) => Promise<Result>): Promise<Result> => {
      const worker = await startRelease(bundles, state, release, objectsOf);
      try {
        const result = await work(worker);
        // After five quiet seconds, a guard has released its reservation.
        await sleep(6000);
        return result;
      } finally {
        await worker.dispose();
      }
    };
    const operate = async (worker: Miniflare, method: string, path: string, body?: object) => {
      const headers = { Authorization: `Bearer ${operatorToken}`, "Content-Type": "application/json" };
      const given = { method, headers, ...(body && { body: JSON.stringify(body) }) };
      const response = await worker.dispatchFetch(`http://localhost:8787/operator/api${path}`, given);
      // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
      return { status: response.status, body: (await response.json()) as any };
    };
    /** Sends requests with a key. Returns the number of admitted requests, and what is used of its hour. */
    const send = async (worker: Miniflare, secretKey: string, requests: number) => {
      let [admitted, used] = [0, 0];
      for (let sent = 0; sent < requests; sent++) {
        const { status, body } = await api(worker, "GET", "/me", undefined, secretKey);
        if (status === 200) [admitted, used] = [admitted + 1, body.rate_limit.used];
        else expect(body.code).toBe("rate_limit_exceeded");
      }
      return [admitted, used];
    };
    const limits = [{ per: "hour", limit: 12 }];
    const { id, secret: secretKey } = await during("released", "released", async (worker) => {
      const made = await operate(worker, "POST", "/accounts", { name: "Shared", email: "shared@acme.dev" });
      const created = await operate(worker, "POST", `/accounts/${made.body.id}/keys`, { name: "Shared" });
      expect(await send(worker, created.body.secret_key, 5)).toEqual([5, 5]);
      return { id: made.body.id as string, secret: created.body.secret_key as string };
    });
    await during("next", "released", async (worker) => {
      const { status, body } = await operate(worker, "PATCH", `/accounts/${id}`, { limits });
      expect([status, body.code]).toEqual([503, "unavailable"]);
      expect((await operate(worker, "GET", `/accounts/${id}`)).body).toMatchObject({ limits: [], pending_limits: limits });
      expect(await send(worker, secretKey, 2)).toEqual([2, 7]);
    });
    await during("next", "next", async (worker) => {
      expect((await (await worker.getWorker("front")).scheduled({ cron: "* * * * *" })).outcome).toBe("ok");
      expect((await operate(worker, "GET", `/accounts/${id}`)).body).toMatchObject({ limits, pending_limits: null });
      expect(await send(worker, secretKey, 8)).toEqual([8, 15]);
    });
    // The released Worker knows no shared limit, but the guard does.
    await during("released", "next", async (worker) => expect(await send(worker, secretKey, 9)).toEqual([4, 19]));
    // After a rollback, the hour of the key still counts every request.
    await during("released", "released", async (worker) => expect(await send(worker, secretKey, 2)).toEqual([2, 21]));
    await during("next", "next", async (worker) => expect(await send(worker, secretKey, 3)).toEqual([0, 0]));
  });

  it("lets the next Worker deliver a message that the released Worker has queued", async () => {
    const worker = await startRelease(bundles, state, "next");
    try {
      const task = await api(worker, "POST", "/tasks", { title: "Queued before" });
      await vi.waitUntil(() => received.some(({ body }) => body.includes(task.body.id)), wait);
      const deliveryId = await resetDeliveries(worker);
      const before = received.length;
      // The released Worker sends messages in this format.
      const queue = await worker.getQueueProducer<{ deliveryId: string }>("DELIVERIES", "front");
      await queue.send({ deliveryId });
      await vi.waitUntil(() => received.length > before, wait);
    } finally {
      await worker.dispose();
    }
  });
});
