import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { root } from "../../node/project.ts";
import { type Service, stopAll } from "../services.ts";
import { type FakeWorker, startFakeWorker } from "./fake-worker.ts";
import { clients, removeGoProgram, startClient } from "./services.ts";

// The same cases for each client, before a server that plays a Worker with faults.

afterAll(async () => {
  await stopAll();
  await removeGoProgram();
});

interface Result {
  status: number;
  ms: number;
  retryAfter: number;
  // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
  body: any;
}

async function get(service: Service, key: string | null, { path = "/orders", headers = {} } = {}): Promise<Result> {
  const startedAt = performance.now();
  const response = await fetch(service.url + path, { headers: { ...(key !== null && { Authorization: `Bearer ${key}` }), ...headers } });
  const text = await response.text();
  const retryAfter = Number(response.headers.get("Retry-After"));
  return { status: response.status, ms: performance.now() - startedAt, retryAfter, body: text === "" ? null : JSON.parse(text) };
}

const statusOf = async (...given: Parameters<typeof get>) => (await get(...given)).status;
const many = <T>(count: number, one: (index: number) => Promise<T>) => Promise.all(Array.from({ length: count }, (_, index) => one(index)));
const stats = async (service: Service) => (await get(service, null, { path: "/_stats" })).body;
const linesOf = (service: Service) =>
  readFileSync(join(service.folder, "log"), "utf8")
    .split("\n")
    .filter((line) => /developer ?overview:/i.test(line));

/** The budget of a decision, and what two busy cores may add. */
const budgetMs = 1000 + 1000;

// Express 4 shares all code with Express, and Workers end neither a process nor a connection of their own.
describe.each(clients.filter((name) => !["Express 4", "Hono on Workers"].includes(name)))("The client for %s", (name) => {
  let worker: FakeWorker;
  let denies: Service;
  let knows: Service;

  beforeAll(async () => {
    worker = await startFakeWorker({ maxReports: 300 });
    [denies, knows] = await Promise.all([
      startClient(name, "deny", { OVERVIEW_URL: worker.url }),
      startClient(name, "known", { OVERVIEW_URL: worker.url, SCOPE: "orders:read" }),
    ]);
  });
  afterAll(async () => {
    await stopAll();
    await worker.stop();
  });

  it("refuses to start with a mode that would let anybody through, and says why", async () => {
    await expect(startClient(name, "allow", { OVERVIEW_URL: worker.url })).rejects.toThrow(/let requests through that nobody has checked/);
  });

  // Express, Fastify and Hono share the verifier of node:http.
  if (["Express", "Fastify", "Hono"].includes(name)) return;

  it("answers 60 requests of a slow credential within the budget, with few calls, and meanwhile serves others", async () => {
    const slow = many(60, () => get(denies, "slow-1"));
    await sleep(100);
    const others = await many(20, (index) => get(denies, `other-${index}`));
    expect(others.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(Math.max(...others.map(({ ms }) => ms))).toBeLessThan(700);
    for (const { status, ms, retryAfter } of await slow) {
      expect([status, retryAfter]).toEqual([503, 1]);
      expect(ms).toBeLessThan(budgetMs);
    }
    expect(worker.mostOf("slow-1")).toBeLessThanOrEqual(16);
    expect(await statusOf(denies, "other-1")).toBe(200);
  });

  it.each([
    ["the 8 keys of another customer are slow, with 24 connections each", "crowd", 8, 24],
    ["300 made-up credentials are slow", "made", 300, 1],
  ])("serves a known key while %s", async (_, kind, keys, connections) => {
    const service = await startClient(name, "deny", { OVERVIEW_URL: worker.url });
    const timed = async () => {
      const results: Result[] = [];
      for (let sent = 0; sent < 50; sent++) {
        results.push(await get(service, "known-1"));
        await sleep(40);
      }
      expect(results.map(({ status }) => status)).toEqual(Array(50).fill(200));
      return results.map(({ ms }) => ms).sort((left, right) => left - right)[25] ?? 0;
    };
    await timed();
    let isOver = false;
    const others = many(keys * connections, async (index) => {
      for (; !isOver; await sleep(100)) await get(service, `${kind}-${index % keys}`);
    });
    await sleep(300);
    const meanwhile = await timed().finally(() => {
      isOver = true;
    });
    const inFlight = worker.inFlight(kind);
    await others;
    // The calls of the others take 700 ms.
    expect(meanwhile).toBeLessThan(500);
    // The calls of a customer share 16 slots, and those of unknown credentials half of 256. A connection that is about to close still counts.
    expect(inFlight).toBeLessThanOrEqual(kind === "crowd" ? 16 + 8 : 128 + 32);
    await service.stop();
  });

  it("does not let a revoked key take the calls of its account", async () => {
    for (const key of ["crowd-good", "crowd-revoked"]) expect(await statusOf(denies, key)).toBe(200);
    worker.denials.set("crowd-revoked", { status: 401 });
    expect(await statusOf(denies, "crowd-revoked")).toBe(401);
    const revoked = many(24, () => get(denies, "crowd-revoked"));
    await sleep(100);
    expect(await statusOf(denies, "crowd-good")).toBe(200);
    await revoked;
  });

  it("denies a key whose call gets no decision, and nobody else: no such answer opens anything", async () => {
    expect(await statusOf(knows, "good-1")).toBe(200);
    await many(12, async (index) => expect(await statusOf(knows, ["busy-1", "reset-1", "page-1", "slow-2"][index % 4] ?? "")).toBe(503));
    expect(await stats(knows)).toMatchObject({ away: false });
    expect((await get(knows, "good-1")).body).toMatchObject({ degraded: false });
    for (const key of ["busy-2", "reset-2", "page-2"]) {
      expect(await statusOf(knows, key)).toBe(503);
      expect((await get(knows, "good-1")).body).toMatchObject({ degraded: false });
    }
    for (const key of ["busy-1", "reset-1", "page-1"]) expect(worker.callsOf(key).length).toBeLessThanOrEqual(6);
  });

  it("denies everybody while the Worker hangs, within the budget", async () => {
    expect(await statusOf(knows, "good-1")).toBe(200);
    worker.hang();
    const answers = await many(60, (index) => get(knows, index % 2 === 0 ? "good-1" : `hung-${index}`));
    worker.answer();
    for (const { status, ms } of answers) {
      expect(status).toBe(503);
      expect(ms).toBeLessThan(budgetMs);
    }
    await vi.waitUntil(async () => (await statusOf(knows, "good-1")) === 200, { timeout: 5000, interval: 100 });
  });

  it("lets only known credentials through while the Worker is away, and ends with its first answer", async () => {
    const at = (ip: string) => ({ headers: { "X-Test-IP": ip } });
    const known = ["good-1", "good-2", "expired-1", "limited-1", "last-1", "revoked-1"];
    for (const key of known) expect(await statusOf(knows, key)).toBe(200);
    expect(await statusOf(knows, "bound-1", at("192.0.2.1"))).toBe(200);
    worker.denials.set("limited-1", { status: 429, retryAfter: 3600 });
    worker.denials.set("revoked-1", { status: 401 });
    expect([await statusOf(knows, "limited-1"), await statusOf(knows, "revoked-1")]).toEqual([429, 401]);
    await sleep(1000);
    await worker.stop();
    const { status, body } = await get(knows, "good-1");
    expect([status, body]).toMatchObject([200, { account: "acc_good-1", degraded: true }]);
    const denied = ["expired-1", "limited-1", "last-1", "revoked-1", "unknown-1"];
    for (const key of denied) expect([key, await statusOf(knows, key)]).toEqual([key, 503]);
    expect(await statusOf(knows, null)).toBe(503);
    expect(await statusOf(knows, "good-1", at("192.0.2.9"))).toBe(503);
    expect([await statusOf(knows, "bound-1"), await statusOf(knows, "bound-1", at("192.0.2.1"))]).toEqual([503, 200]);
    worker.denials.set("good-2", { status: 401 });
    await worker.start();
    const answers = await vi.waitUntil(
      async () => {
        const answer = await get(knows, "good-1");
        return answer.body.degraded === false ? answer : null;
      },
      { timeout: 5000, interval: 100 },
    );
    expect(answers.status).toBe(200);
    expect(await statusOf(knows, "good-2")).toBe(401);
    await worker.stop();
    expect([await statusOf(knows, "good-2"), await statusOf(knows, "good-1")]).toEqual([503, 200]);
    await worker.start();
  });

  it("keeps a known credential to the scopes of its key", async () => {
    const scoped = await startClient(name, "known", { OVERVIEW_URL: worker.url, SCOPE: "orders:write" });
    expect(await statusOf(scoped, "good-3")).toBe(200);
    await worker.stop();
    expect(await statusOf(scoped, "good-3")).toBe(503);
    await worker.start();
    await scoped.stop();
  });

  // The server for WSGI keeps no connection.
  it.skipIf(name === "WSGI")("does not take its own want of connections for an absent Worker", async () => {
    const small = await startClient(name, "known", { OVERVIEW_URL: worker.url }, 64);
    const port = Number(new URL(small.url).port);
    const open = () => {
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      return socket;
    };
    const kept = open();
    let text = "";
    kept.on("data", (chunk) => {
      text += chunk;
    });
    const ask = async (key: string, path = "/orders") => {
      text = "";
      kept.write(`GET ${path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer ${key}\r\n\r\n`);
      await vi.waitUntil(() => text.includes("\r\n\r\n"), { timeout: 5000, interval: 10 });
      return Number(text.split(" ")[1]);
    };
    expect(await ask("good-1")).toBe(200);
    const others = Array.from({ length: 100 }, open);
    await sleep(500);
    // The connection that was kept to the Worker ends, and there is no room for another.
    worker.answer();
    await sleep(100);
    const more = Array.from({ length: 100 }, open);
    await sleep(300);
    for (let sent = 0; sent < 4; sent++) {
      const status = await ask("good-1");
      await sleep(50);
      // A server that takes no more connections for a moment may have room for a call.
      expect(status === 503 || /"degraded": ?false/.test(text)).toBe(true);
    }
    for (const socket of [kept, ...others, ...more]) socket.destroy();
    await small.stop();
  });

  it("says in Retry-After what is left of the pause, and then calls the Worker again", async () => {
    expect(await statusOf(denies, "good-1")).toBe(200);
    await worker.stop();
    await get(denies, "good-1");
    const startedAt = performance.now();
    for (let sent = 0; sent < 6; sent++) {
      const { status, retryAfter } = await get(denies, "good-1");
      const left = 5 - (performance.now() - startedAt) / 1000;
      expect(status).toBe(503);
      expect(retryAfter).toBeGreaterThanOrEqual(1);
      expect(Math.abs(retryAfter - left)).toBeLessThan(1.5);
      await sleep(500);
    }
    await worker.start();
    const { retryAfter } = await get(denies, "good-1");
    await sleep(retryAfter * 1000);
    expect((await many(10, () => get(denies, "good-1"))).some(({ status }) => status === 200)).toBe(true);
    expect(await statusOf(denies, "good-1")).toBe(200);
  });

  it("drops and counts a report that the Worker does not accept, and sends 6,000 others within seconds", async () => {
    const { dropped } = await stats(denies);
    await many(5, (index) => get(denies, index === 2 ? "odd-1" : `fine-${index}`));
    const startedAt = performance.now();
    await get(denies, null, { path: "/_reports" });
    const received = () => worker.reports.filter(({ receipt }) => receipt.startsWith("burst")).length;
    await vi.waitUntil(() => received() >= 6000, { timeout: 15_000, interval: 50 });
    expect(received()).toBe(6000);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    expect(worker.reports.filter(({ receipt }) => receipt.startsWith("fine"))).toHaveLength(4);
    expect(await stats(denies)).toMatchObject({ dropped: dropped + 1, waiting: 0 });
  });

  it("writes few lines to the log, however many requests fail", async () => {
    expect(linesOf(denies).length).toBeGreaterThan(0);
    expect(linesOf(denies).length).toBeLessThan(8);
    expect(linesOf(denies).every((line) => line.length < 1000)).toBe(true);
  });
});

/** Opens a WebSocket. Returns the status of the answer, what came with it, and the connection. */
function upgrade(service: Service, key: string | null): Promise<{ status: number; text: string; socket: Socket | null }> {
  const headers = {
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    ...(key && { Authorization: `Bearer ${key}` }),
  };
  return new Promise((resolve, reject) => {
    request(`${service.url}/socket`, { headers, agent: false })
      .once("upgrade", async (response, socket, head) => {
        let text = head.toString("latin1");
        socket.on("data", (chunk) => {
          text += chunk.toString("latin1");
        });
        await vi.waitUntil(() => text !== "", { timeout: 5000, interval: 10 }).catch(reject);
        resolve({ status: response.statusCode ?? 0, text, socket: socket as Socket });
      })
      .once("response", async (response) => {
        let text = "";
        for await (const chunk of response) text += chunk;
        resolve({ status: response.statusCode ?? 0, text, socket: null });
      })
      .once("error", reject)
      .end();
  });
}

describe.each(["node:http", "ASGI", "Go"])("A WebSocket behind the client for %s", (name) => {
  it("is refused without an admitted key before it opens, and is reported as 101 when it ends", async () => {
    const worker = await startFakeWorker();
    const service = await startClient(name, "deny", { OVERVIEW_URL: worker.url });
    worker.denials.set("revoked-1", { status: 401 });
    // A server for ASGI without the extension for responses turns every denial into 403.
    const refused = name === "ASGI" ? 403 : 401;
    for (const key of [null, "revoked-1"]) expect(await upgrade(service, key)).toMatchObject({ status: refused, socket: null });
    expect((await upgrade(service, "slow-1")).status).toBe(name === "ASGI" ? 403 : 503);
    const { status, text, socket } = await upgrade(service, "good-1");
    expect([status, text]).toEqual([101, expect.stringContaining("acc_good-1")]);
    await sleep(1100);
    expect(worker.reports).toEqual([]);
    // A masked frame that closes the WebSocket.
    socket?.end(Buffer.from([0x88, 0x80, 0, 0, 0, 0]));
    await vi.waitUntil(() => worker.reports.length > 0, { timeout: 5000, interval: 50 });
    expect(worker.reports).toMatchObject([{ receipt: expect.stringContaining("good-1"), status: 101 }]);
    expect(worker.reports[0]?.duration_ms).toBeGreaterThan(1000);
    await service.stop();
    await worker.stop();
  });

  it("ends when a later decision denies its key", async () => {
    const worker = await startFakeWorker();
    const service = await startClient(name, "deny", { OVERVIEW_URL: worker.url });
    const [ended, other] = await Promise.all([upgrade(service, "good-1"), upgrade(service, "good-2")]);
    const closed = new Promise((resolve) => ended.socket?.once("close", () => resolve("closed")));
    ended.socket?.resume();
    worker.denials.set("good-1", { status: 401, code: "revoked_key" });
    expect(await statusOf(service, "good-1")).toBe(401);
    expect(await Promise.race([closed, sleep(5000)])).toBe("closed");
    expect(other.socket?.destroyed).toBe(false);
    other.socket?.destroy();
    await service.stop();
    await worker.stop();
  });
});

describe.each(["node:http", "Express", "Fastify", "Hono", "Go"])(
  "With the client for %s, a client that goes away during the decision",
  (name) => {
    it("does not run the handler, and leaves no call in flight", async () => {
      const worker = await startFakeWorker();
      const service = await startClient(name, "deny", { OVERVIEW_URL: worker.url });
      const leaveAfter = async (key: string, ms: number) => {
        const aborting = new AbortController();
        setTimeout(() => aborting.abort(), ms);
        await fetch(`${service.url}/orders`, { headers: { Authorization: `Bearer ${key}` }, signal: aborting.signal }).catch(() => {});
      };
      await leaveAfter("late-1", 150);
      await vi.waitUntil(() => worker.callsOf("late-1").length === 1 && worker.inFlight("late") === 0, { timeout: 5000, interval: 20 });
      await sleep(100);
      expect(await stats(service)).toMatchObject({ runs: 0 });
      // Go ends the call with the request, so there is no receipt.
      if (name !== "Go") {
        await vi.waitUntil(() => worker.reports.length > 0, { timeout: 5000, interval: 50 });
        expect(worker.reports).toMatchObject([{ status: 499 }]);
      }
      // Express, Fastify and Hono share the verifier of node:http.
      if (name === "node:http" || name === "Go") await many(200, (index) => leaveAfter(`slow-${index}`, 300));
      await vi.waitUntil(() => worker.inFlight("slow") === 0, { timeout: name === "Go" ? 700 : 2000, interval: 20 });
      await service.stop();
      await worker.stop();
    });
  },
);

it.concurrent.each(["node:http", "ASGI", "WSGI", "Go"])(
  "A Worker that hangs for six seconds opens nothing behind the client for %s",
  async (name) => {
    const worker = await startFakeWorker();
    const service = await startClient(name, "known", { OVERVIEW_URL: worker.url });
    expect(await statusOf(service, "good-1")).toBe(200);
    // The report of this request has arrived, so that nothing but the requests below calls the Worker.
    await vi.waitUntil(() => worker.reports.length === 1, { timeout: 5000, interval: 20 });
    worker.hang();
    for (const startedAt = performance.now(); performance.now() - startedAt < 6000; ) expect(await statusOf(service, "good-1")).toBe(503);
    expect(await stats(service)).toMatchObject({ away: false });
    await service.stop();
    await worker.stop();
  },
);

it("A response that was sent while the client waited for a decision stays, and no handler runs", async () => {
  const worker = await startFakeWorker();
  const service = await startClient("node:http", "deny", { OVERVIEW_URL: worker.url });
  expect(await statusOf(service, "late-1", { path: "/impatient" })).toBe(504);
  worker.denials.set("late-2", { status: 401 });
  expect(await statusOf(service, "late-2", { path: "/impatient" })).toBe(504);
  await vi.waitUntil(() => worker.reports.length > 0, { timeout: 5000, interval: 50 });
  expect(worker.reports).toMatchObject([{ receipt: expect.stringContaining("late-1"), status: 504 }]);
  expect(await stats(service)).toMatchObject({ runs: 0 });
  await service.stop();
  await worker.stop();
});

it("A route of 300 characters is cut, and a provisional status does not end a request", async () => {
  const worker = await startFakeWorker();
  const services = await Promise.all(["node:http", "Go"].map((name) => startClient(name, "deny", { OVERVIEW_URL: worker.url })));
  for (const service of services) await get(service, "good-1", { path: "/long" });
  await vi.waitUntil(() => worker.reports.length === 2, { timeout: 5000, interval: 50 });
  expect(worker.reports.map(({ route }) => route?.length)).toEqual([200, 200]);
  expect(await statusOf(services[1] as Service, "good-1", { path: "/hints" })).toBe(404);
  await vi.waitUntil(() => worker.reports.length === 3, { timeout: 5000, interval: 50 });
  expect(worker.reports[2]?.status).toBe(404);
  await Promise.all(services.map((service) => service.stop()));
  await worker.stop();
});

it("The writer of the client for Go has the methods that http.ResponseController looks for", async () => {
  const { stdout } = await promisify(execFile)("go", ["test", "./..."], { cwd: join(root, "integrations/go") });
  expect(stdout).toContain("ok");
});
