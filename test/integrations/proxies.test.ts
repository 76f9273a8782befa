import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort, root } from "../node/project.ts";
import { type RunningWorker, startWorker } from "../node/worker.ts";
import { operatorOf } from "./operator.ts";
import { blocksIn, type Service, startService, stopAll } from "./services.ts";

// nginx and Caddy as installed, with the configurations of docs/team/protect-an-existing-api.md, before an origin that counts.

const guide = "docs/team/protect-an-existing-api.md";
const [limit, sent] = [5000, 6000];

let worker: RunningWorker;
let operator: ReturnType<typeof operatorOf>;
let origin: Server;
let reached: { account: string | undefined; url: string | undefined }[] = [];

beforeAll(async () => {
  worker = await startWorker();
  operator = operatorOf(worker);
  origin = createServer((request, response) => {
    reached.push({ account: request.headers["x-verified-account"] as string | undefined, url: request.url });
    response.end("served");
  });
  await new Promise<void>((resolve) => origin.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  await stopAll();
  origin?.close();
  await worker?.stop();
});

/** Puts the addresses and the token of the test into a configuration of the guide. */
const configured = (text: string, token: string, port: number) =>
  text
    .replaceAll("127.0.0.1:8787", `127.0.0.1:${worker.port}`)
    .replaceAll("127.0.0.1:4000", `127.0.0.1:${(origin.address() as AddressInfo).port}`)
    .replaceAll("127.0.0.1:4080", `127.0.0.1:${port}`)
    .replaceAll(":4081", `:${port}`)
    .replaceAll("SERVICE_TOKEN", token);

const nginxConfig = () => /cat > nginx\.conf <<'END'\n([\s\S]*?)\nEND\n/.exec(readFileSync(join(root, guide), "utf8"))?.[1] ?? "";

async function startNginx(token: string): Promise<Service> {
  const port = await freePort();
  const config = configured(nginxConfig(), token, port);
  const service = await startService(
    { "nginx.conf": config },
    (_, folder) => ["nginx", "-p", folder, "-c", "nginx.conf", "-g", "daemon off;"],
    {},
    port,
  );
  return service;
}

async function startCaddy(token: string): Promise<Service> {
  const port = await freePort();
  const config = `{\n\tadmin off\n\tauto_https off\n}\n${configured(blocksIn(guide).Caddyfile ?? "", token, port)}`;
  return startService({ Caddyfile: config }, () => ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"], {}, port);
}

/**
 * Starts a proxy that asks as Traefik or Envoy documents it, because Debian has neither of them. It is no test of these proxies: it shows that the
 * Worker understands their requests.
 */
async function startAsking(
  ask: (request: IncomingMessage) => { path: string; method: string; headers: Record<string, string> },
): Promise<Service> {
  const agent = { port: (origin.address() as AddressInfo).port };
  const server = createServer(async (request, response) => {
    const { path, method, headers } = ask(request);
    const answer = await fetch(`http://localhost:${worker.port}/operator/api/verify/forward${path}`, { method, headers });
    const body = await answer.text();
    if (answer.status !== 200) {
      const names = ["content-type", "retry-after", "www-authenticate", "ratelimit", "ratelimit-policy", "x-ratelimit-limit"];
      for (const name of names) if (answer.headers.has(name)) response.setHeader(name, answer.headers.get(name) ?? "");
      response.writeHead(answer.status).end(body);
      return;
    }
    const verified = Object.fromEntries([...answer.headers].filter(([name]) => name.startsWith("x-verified-")));
    const served = await fetch(`http://127.0.0.1:${agent.port}${request.url}`, { headers: verified });
    response.writeHead(served.status).end(await served.text());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stop = async () => void server.close();
  return { url, folder: "", stop, kill: stop };
}

const ofClient = ({ headers }: IncomingMessage): Record<string, string> =>
  headers.authorization ? { Authorization: headers.authorization } : {};

const startTraefik = (token: string) =>
  startAsking((request) => ({
    path: "",
    method: "GET",
    headers: {
      ...ofClient(request),
      "X-Service-Token": token,
      "X-Forwarded-Method": request.method ?? "GET",
      "X-Forwarded-Uri": request.url ?? "/",
      "X-Forwarded-Proto": "http",
      "X-Forwarded-Host": "api.example.com",
      "X-Forwarded-For": "127.0.0.1",
      "X-Real-IP": "127.0.0.1",
    },
  }));

const startEnvoy = (token: string) =>
  startAsking((request) => ({
    path: request.url ?? "/",
    method: request.method ?? "GET",
    headers: { ...ofClient(request), "X-Service-Token": token, "X-Real-IP": "127.0.0.1" },
  }));

/** Waits for the next hour if the current one could end during a test. The limit of the hour would then begin anew. */
async function awayFromHour(): Promise<void> {
  const left = 3_600_000 - (Date.now() % 3_600_000);
  if (left < 90_000) await new Promise((resolve) => setTimeout(resolve, left));
}

/** Sends requests from 32 connections. Returns how many had each status. */
async function sendMany(url: string, key: string, count: number): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  let left = count;
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      while (left-- > 0) {
        const { status } = await fetch(`${url}/orders/7`, { headers: { Authorization: `Bearer ${key}` } }).then(async (response) => {
          await response.arrayBuffer();
          return response;
        });
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
    }),
  );
  return statuses;
}

describe.each([
  ["nginx", startNginx],
  ["Caddy", startCaddy],
  ["a proxy that asks like Traefik", startTraefik],
  ["a proxy that asks like Envoy", startEnvoy],
])("Behind %s", (_, start) => {
  let proxy: Service;
  beforeAll(async () => {
    proxy = await start(await operator.makeToken("verify"));
  });

  it(`of ${sent} requests on a limit of ${limit}, exactly ${limit} reach the origin`, async () => {
    await awayFromHour();
    const { id, key } = await operator.makeAccount({ limit });
    reached = [];
    const statuses = await sendMany(proxy.url, key, sent);
    expect(statuses).toEqual({ 200: limit, 429: sent - limit });
    expect(reached).toHaveLength(limit);
    expect(new Set(reached.map(({ account }) => account))).toEqual(new Set([id]));
  });

  it("no request reaches the origin after a revocation has returned", async () => {
    const { key, keyId } = await operator.makeAccount({ limit });
    expect(await sendMany(proxy.url, key, 100)).toEqual({ 200: 100 });
    await operator.call("DELETE", `/keys/${keyId}`);
    reached = [];
    expect(await sendMany(proxy.url, key, 300)).toEqual({ 401: 300 });
    expect(reached).toEqual([]);
  });

  it("the customer gets the problem and the headers", async () => {
    const { key } = await operator.makeAccount({ limit: 1 });
    const get = (headers: Record<string, string>) => fetch(`${proxy.url}/orders/7`, { headers });
    const served = await get({ Authorization: `Bearer ${key}`, "X-Verified-Account": "acc_forged" });
    expect([served.status, served.headers.get("X-RateLimit-Limit") ?? "1"]).toEqual([200, "1"]);
    expect(reached.at(-1)?.account).not.toBe("acc_forged");
    const limited = await get({ Authorization: `Bearer ${key}` });
    expect(limited.status).toBe(429);
    expect(Number(limited.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(limited.headers.get("RateLimit")).toContain('"hour"');
    expect(limited.headers.get("Content-Type")).toBe("application/problem+json");
    expect(await limited.json()).toMatchObject({ status: 429, code: "rate_limit_exceeded", instance: "/orders/7" });
    const none = await get({});
    expect([none.status, none.headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="api"']);
    expect(await none.json()).toMatchObject({ code: "missing_key" });
  });
});
