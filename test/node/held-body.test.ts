import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningWorker, startWorker } from "./worker.ts";

// Bodies that a test sends over a socket as slowly as it likes: with a stated length and chunked.

let worker: RunningWorker;
let port: number;
let owner: string;

beforeAll(async () => {
  worker = await startWorker();
  ({ port, key: owner } = worker);
});

afterAll(() => worker.stop());

// biome-ignore lint/suspicious/noExplicitAny: what a stranger's client sees has no type
const api = async (method: string, path: string, body?: unknown): Promise<{ status: number; body: any }> => {
  const response = await fetch(`http://localhost:${port}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${owner}`, "Content-Type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text) };
};

interface Held {
  /** Sends what is left of the body. */
  release(): void;
  /** The status and the body of the response. */
  response: Promise<{ status: number; code: string; receivedAt: number }>;
}

type Framing = "with a stated length" | "chunked";

/** Begins a request, and holds the second half of its body. `stated`: a length that is not the body's. */
async function hold(method: string, path: string, key: string | null, body: string, framing: Framing, stated = body.length): Promise<Held> {
  const socket = connect({ port, host: "127.0.0.1" });
  const isChunked = framing === "chunked";
  const chunk = (text: string) => (isChunked ? `${text.length.toString(16)}\r\n${text}\r\n` : text);
  const half = Math.floor(body.length / 2);
  const head = [
    `${method} /api/v1${path} HTTP/1.1`,
    `Host: localhost:${port}`,
    ...(key === null ? [] : [`Authorization: Bearer ${key}`]),
    "Content-Type: application/json",
    isChunked ? "Transfer-Encoding: chunked" : `Content-Length: ${stated}`,
    "Connection: close",
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${chunk(body.slice(0, half))}`);
  const response = new Promise<{ status: number; code: string; receivedAt: number }>((resolve, reject) => {
    let said = "";
    const settle = () => {
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(said)?.[1]);
      resolve({ status, code: /"code":"(\w+)"/.exec(said)?.[1] ?? "", receivedAt: Date.now() });
    };
    socket.on("data", (data) => {
      said += data;
      if (/"request_id":"[^"]+"[^}]*\}|"resets_at":"[^"]+"\}\}/.test(said)) settle();
    });
    socket.on("close", () => (said === "" ? reject(new Error("the connection was closed without a response")) : settle()));
    socket.on("error", (error) => (said === "" ? reject(error) : settle()));
  });
  // So that it has reached the Worker.
  await sleep(300);
  return { release: () => socket.write(chunk(body.slice(half)) + (isChunked ? "0\r\n\r\n" : "")), response };
}

const makeKey = async () => (await api("POST", "/keys", { name: "Acting", scopes: allScopes })).body as { id: string; secret_key: string };
const allScopes = ["tasks:read", "tasks:write", "users:read", "users:write", "keys:read", "keys:write", "webhooks:read", "webhooks:write"];
const webhook = { url: "https://hooks.acme.dev/", event_types: ["task.created"] };

describe.each<Framing>(["with a stated length", "chunked"])("A key that is ended while its body is on the way, %s,", (framing) => {
  it.each<[string, string, (keyId: string) => string, object, string, "revoked" | "disabled"]>([
    ["makes no key", "POST", () => "/keys", { name: "Late" }, "revoked_key", "revoked"],
    ["changes no key", "PATCH", (id) => `/keys/${id}`, { name: "Late" }, "revoked_key", "revoked"],
    ["makes no webhook", "POST", () => "/webhooks", webhook, "disabled_key", "disabled"],
    ["makes no task", "POST", () => "/tasks", { title: "Late" }, "revoked_key", "revoked"],
    ["does not rotate itself", "POST", (id) => `/keys/${id}/rotate`, { overlap_seconds: 600 }, "disabled_key", "disabled"],
  ])("%s", async (_, method, path, body, code, ended) => {
    const acting = await makeKey();
    const seen = async () => {
      const [keys, webhooks, tasks] = await Promise.all([api("GET", "/keys?limit=100"), api("GET", "/webhooks"), api("GET", "/tasks")]);
      const without = (list: { id: string }[]) => list.filter(({ id }) => id !== acting.id);
      return [without(keys.body.data).map(({ id }) => id), webhooks.body.data, tasks.body.data];
    };
    const before = await seen();
    const held = await hold(method, path(acting.id), acting.secret_key, JSON.stringify(body), framing);
    if (ended === "revoked") expect((await api("DELETE", `/keys/${acting.id}`)).status).toBe(204);
    else expect((await api("PATCH", `/keys/${acting.id}`, { status: "disabled" })).status).toBe(200);
    held.release();
    expect(await held.response).toMatchObject({ status: 401, code });
    expect(await seen()).toEqual(before);
    expect((await api("GET", `/keys/${acting.id}`)).body).toMatchObject({ name: "Acting", status: ended });
    await api("DELETE", `/keys/${acting.id}`);
  });

  it("is refused in the order of the contract, though its body was wrong too", async () => {
    const acting = await makeKey();
    const held = await hold("POST", "/tasks", acting.secret_key, "not JSON at all", framing);
    await api("DELETE", `/keys/${acting.id}`);
    held.release();
    expect(await held.response).toMatchObject({ status: 401, code: "revoked_key" });
  });
});

describe.each<Framing>(["with a stated length", "chunked"])("A body that does not arrive, %s,", (framing) => {
  it("keeps nobody waiting whose key is missing or made up", async () => {
    const made = `dvo_${"0".repeat(16)}_${"0".repeat(40)}`;
    for (const [key, code] of [
      [null, "missing_key"],
      [made, "invalid_key"],
    ] as const) {
      const { response } = await hold("POST", "/tasks", key, '{"title":"x"}', framing);
      expect(await response).toMatchObject({ status: 401, code });
    }
  });

  it("is not waited for where it is too large, or where nothing is there to take it", async () => {
    const large = `{"title":"${"x".repeat(140_000)}"}`;
    expect(await (await hold("POST", "/tasks", owner, large, framing)).response).toMatchObject({ status: 413, code: "body_too_large" });
    const unknown = await hold("GET", "/me", owner, '{"a":1}', framing);
    expect((await unknown.response).status).toBe(200);
  });
});

it("A body that does not arrive is waited for 15 seconds, and then answered with 408, counted and in the log", async () => {
  const startedAt = Date.now();
  const framings: Framing[] = ["with a stated length", "chunked"];
  const held = await Promise.all(framings.map((framing) => hold("POST", "/tasks", owner, '{"title":"x"}', framing)));
  for (const { response } of held) {
    const { status, code, receivedAt } = await response;
    expect([status, code]).toEqual([408, "request_timeout"]);
    expect(receivedAt - startedAt).toBeGreaterThan(14_000);
    expect(receivedAt - startedAt).toBeLessThan(20_000);
  }
  await sleep(500);
  const { body } = await api("GET", "/activity?status=408");
  const entry = { path: "/api/v1/tasks", status: 408, error_code: "request_timeout", counted: true };
  expect(body.data).toMatchObject([entry, entry]);
}, 30_000);

describe("A body that nobody reads", () => {
  it.each([
    ["OPTIONS", "/tasks"],
    ["POST", "/nothing"],
  ])("is not waited for: %s %s", async (method, path) => {
    const begunAt = Date.now();
    const held = await hold(method, path, null, "{}", "with a stated length", 500);
    expect((await held.response).receivedAt - begunAt).toBeLessThan(5000);
  });
});
