/** @module-tag process */
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
import { type RunningWorker, startWorker } from "./worker.ts";

// Sends request bodies in two parts over a socket. A request either has a Content-Length or uses chunked encoding.

let worker: RunningWorker;
let port: number;
let owner: string;

beforeAll(async () => {
  worker = await startWorker();
  ({ port, key: owner } = worker);
});

afterAll(() => worker.stop());

// biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
const api = async (method: string, path: string, body?: unknown): Promise<{ status: number; body: any }> => {
  const response = await fetch(`http://localhost:${port}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${owner}`, "Content-Type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text) };
};

interface ReceivedResponse {
  status: number;
  /** The error code in the body, or an empty string. */
  code: string;
  /** The time when the response arrived, in milliseconds since the epoch. */
  receivedAt: number;
}

interface HeldRequest {
  /** Sends the rest of the body. */
  release(): void;
  response: Promise<ReceivedResponse>;
}

type Framing = "with a Content-Length" | "chunked";

/** Sends a request with only the first half of its body. `contentLength` can differ from the length of the body. */
async function hold(
  method: string,
  path: string,
  key: string | null,
  body: string,
  framing: Framing,
  contentLength = body.length,
): Promise<HeldRequest> {
  const socket = connect({ port, host: "127.0.0.1" });
  const isChunked = framing === "chunked";
  const chunk = (text: string) => (isChunked ? `${text.length.toString(16)}\r\n${text}\r\n` : text);
  const half = Math.floor(body.length / 2);
  const head = [
    `${method} /api/v1${path} HTTP/1.1`,
    `Host: localhost:${port}`,
    ...(key === null ? [] : [`Authorization: Bearer ${key}`]),
    "Content-Type: application/json",
    isChunked ? "Transfer-Encoding: chunked" : `Content-Length: ${contentLength}`,
    "Connection: close",
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${chunk(body.slice(0, half))}`);
  const response = new Promise<ReceivedResponse>((resolve, reject) => {
    let text = "";
    const settle = () => {
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]);
      resolve({ status, code: /"code":"(\w+)"/.exec(text)?.[1] ?? "", receivedAt: Date.now() });
    };
    socket.on("data", (data) => {
      text += data;
      if (/"request_id":"[^"]+"[^}]*\}|"resets_at":"[^"]+"\}\}/.test(text)) settle();
    });
    socket.on("close", () => (text === "" ? reject(new Error("the connection was closed without a response")) : settle()));
    socket.on("error", (error) => (text === "" ? reject(error) : settle()));
  });
  // Gives the request time to reach the Worker. The wait has a fixed length, because the test cannot observe a request with an incomplete
  // body.
  await sleep(300);
  return { release: () => socket.write(chunk(body.slice(half)) + (isChunked ? "0\r\n\r\n" : "")), response };
}

const makeKey = async () => (await api("POST", "/keys", { name: "Acting", scopes: allScopes })).body as { id: string; secret_key: string };
const allScopes = ["tasks:read", "tasks:write", "users:read", "users:write", "keys:read", "keys:write", "webhooks:read", "webhooks:write"];
const webhook = { url: "https://hooks.acme.dev/", event_types: ["task.created"] };

// The short form sends only chunked bodies, because the Worker cannot know their length in advance.
const framings: Framing[] = inject("isLong") ? ["with a Content-Length", "chunked"] : ["chunked"];

describe.each(framings)("A key that is revoked or disabled while its body is sent %s", { tags: ["long"] }, (framing) => {
  it.each<[string, string, (keyId: string) => string, object, string, "revoked" | "disabled"]>([
    ["creates no key", "POST", () => "/keys", { name: "Late" }, "revoked_key", "revoked"],
    ["changes no key", "PATCH", (id) => `/keys/${id}`, { name: "Late" }, "revoked_key", "revoked"],
    ["creates no webhook", "POST", () => "/webhooks", webhook, "disabled_key", "disabled"],
    ["creates no task", "POST", () => "/tasks", { title: "Late" }, "revoked_key", "revoked"],
    ["does not rotate itself", "POST", (id) => `/keys/${id}/rotate`, { overlap_seconds: 600 }, "disabled_key", "disabled"],
  ])("%s", async (_, method, path, body, code, newStatus) => {
    const acting = await makeKey();
    const readResources = async () => {
      const [keys, webhooks, tasks] = await Promise.all([api("GET", "/keys?limit=100"), api("GET", "/webhooks"), api("GET", "/tasks")]);
      const otherKeys = keys.body.data.filter(({ id }: { id: string }) => id !== acting.id);
      return [otherKeys.map(({ id }: { id: string }) => id), webhooks.body.data, tasks.body.data];
    };
    const before = await readResources();
    const held = await hold(method, path(acting.id), acting.secret_key, JSON.stringify(body), framing);
    if (newStatus === "revoked") expect((await api("DELETE", `/keys/${acting.id}`)).status).toBe(204);
    else expect((await api("PATCH", `/keys/${acting.id}`, { status: "disabled" })).status).toBe(200);
    held.release();
    expect(await held.response).toMatchObject({ status: 401, code });
    expect(await readResources()).toEqual(before);
    expect((await api("GET", `/keys/${acting.id}`)).body).toMatchObject({ name: "Acting", status: newStatus });
    await api("DELETE", `/keys/${acting.id}`);
  });

  it("gets 401 even if the body is invalid", async () => {
    const acting = await makeKey();
    const held = await hold("POST", "/tasks", acting.secret_key, "not JSON at all", framing);
    await api("DELETE", `/keys/${acting.id}`);
    held.release();
    expect(await held.response).toMatchObject({ status: 401, code: "revoked_key" });
  });
});

describe.each(framings)("The Worker, given an incomplete body %s,", { tags: ["long"] }, (framing) => {
  it("returns 401 without the rest of the body if the key is missing or invented", async () => {
    const inventedKey = `dvo_${"0".repeat(16)}_${"0".repeat(40)}`;
    for (const [key, code] of [
      [null, "missing_key"],
      [inventedKey, "invalid_key"],
    ] as const) {
      const { response } = await hold("POST", "/tasks", key, '{"title":"x"}', framing);
      expect(await response).toMatchObject({ status: 401, code });
    }
  });

  it("responds without the rest of the body if the body is too large or not needed", async () => {
    const tooLarge = `{"title":"${"x".repeat(140_000)}"}`;
    expect(await (await hold("POST", "/tasks", owner, tooLarge, framing)).response).toMatchObject({ status: 413, code: "body_too_large" });
    const notNeeded = await hold("GET", "/me", owner, '{"a":1}', framing);
    expect((await notNeeded.response).status).toBe(200);
  });
});

it("The Worker returns 408 if the rest of a body does not arrive in 15 seconds, and counts and logs the request", async () => {
  const startedAt = Date.now();
  const framings: Framing[] = ["with a Content-Length", "chunked"];
  const held = await Promise.all(framings.map((framing) => hold("POST", "/tasks", owner, '{"title":"x"}', framing)));
  for (const { response } of held) {
    const { status, code, receivedAt } = await response;
    expect([status, code]).toEqual([408, "request_timeout"]);
    expect(receivedAt - startedAt).toBeGreaterThan(14_000);
    expect(receivedAt - startedAt).toBeLessThan(20_000);
  }
  const entry = { path: "/api/v1/tasks", status: 408, error_code: "request_timeout", counted: true };
  await vi.waitFor(async () => expect((await api("GET", "/activity?status=408")).body.data).toMatchObject([entry, entry]), {
    timeout: 2000,
    interval: 50,
  });
}, 30_000);

it.each([
  ["OPTIONS", "/tasks"],
  ["POST", "/nothing"],
])("The Worker responds to %s %s without waiting for the body", async (method, path) => {
  const startedAt = Date.now();
  const held = await hold(method, path, null, "{}", "with a Content-Length", 500);
  expect((await held.response).receivedAt - startedAt).toBeLessThan(5000);
});
