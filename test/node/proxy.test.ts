/** @module-tag process */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type RunningWorker, startWorker } from "./worker.ts";

// Tests the Worker behind a proxy that compresses responses. If the proxy compresses a response, the proxy changes a strong ETag to a weak
// ETag, as Cloudflare and nginx do.

let worker: RunningWorker;
let proxy: Server;
let compressed = 0;

const hopByHop = ["connection", "keep-alive", "transfer-encoding", "content-length", "host"];

function startProxy(target: string): Promise<Server> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = Object.entries(request.headers).flatMap(([name, value]) =>
      hopByHop.includes(name) || name === "accept-encoding" ? [] : [[name, String(value)] as [string, string]],
    );
    const forwarded = await fetch(target + request.url, {
      method: request.method ?? "GET",
      headers: [...headers, ["accept-encoding", "identity"]],
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    });
    const body = Buffer.from(await forwarded.arrayBuffer());
    const sent = Object.fromEntries([...forwarded.headers].filter(([name]) => !hopByHop.includes(name)));
    const isCompressed = body.length > 0 && /\bgzip\b/.test(request.headers["accept-encoding"] ?? "");
    if (isCompressed) {
      compressed++;
      sent["content-encoding"] = "gzip";
      if (sent.etag?.startsWith('"')) sent.etag = `W/${sent.etag}`;
    }
    response.writeHead(forwarded.status, sent).end(isCompressed ? gzipSync(body) : body);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

beforeAll(async () => {
  worker = await startWorker();
  proxy = await startProxy(`http://localhost:${worker.port}`);
});

afterAll(async () => {
  proxy?.close();
  await worker?.stop();
});

const send = (method: string, path: string, headers: Record<string, string> = {}, body?: object) =>
  fetch(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${worker.key}`, "Content-Type": "application/json", "Accept-Encoding": "gzip", ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });

it.each<[string, string, object, object, object]>([
  ["user", "/users", { name: "Ada", email: "ada@example.com" }, { name: "Bob" }, { name: "Eve" }],
  ["task", "/tasks", { title: "x" }, { title: "y" }, { title: "z" }],
  ["key", "/keys", { name: "x" }, { name: "y" }, { name: "z" }],
  ["webhook", "/webhooks", { url: "https://hooks.acme.dev/", event_types: ["*"] }, { description: "y" }, { description: "z" }],
])("Conditional requests for a %s work through a compressing proxy", async (_, list, content, patch, other) => {
  const { id } = (await (await send("POST", list, {}, content)).json()) as { id: string };
  const path = `${list}/${id}`;
  const read = await send("GET", path);
  const tag = read.headers.get("ETag") ?? "";
  expect([read.headers.get("Content-Encoding"), tag.slice(0, 3)]).toEqual(["gzip", 'W/"']);
  expect(((await read.json()) as { id: string }).id).toBe(id);
  expect((await send("GET", path, { "If-None-Match": tag })).status).toBe(304);
  const changed = await send("PATCH", path, { "If-Match": tag }, patch);
  const newTag = changed.headers.get("ETag") ?? "";
  expect([changed.status, newTag.slice(0, 3), newTag === tag]).toEqual([200, 'W/"', false]);
  expect((await send("PATCH", path, { "If-Match": tag }, other)).status).toBe(412);
  expect((await send("GET", path, { "If-None-Match": tag })).status).toBe(200);
  expect((await send("DELETE", path, { "If-None-Match": newTag })).status).toBe(412);
  expect((await send("DELETE", path, { "If-Match": newTag })).status).toBe(204);
  expect(compressed).toBeGreaterThan(4);
});
