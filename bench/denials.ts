import { Agent, request } from "node:http";
import { join } from "node:path";
import { cpuMsOf, median } from "./load.ts";
import { forgedKeys, prepare } from "./variants.ts";
import { bundle, serve } from "./workerd.ts";

const rounds = 3;
const seconds = 1;
const warmSeconds = 2;
const connections = 8;

/** A kind of request that a client without a key can send. If `headers` is an array, the requests use the elements of the array in turn. */
interface Shape {
  name: string;
  method?: string;
  path: string;
  headers?: Record<string, string> | Record<string, string>[];
  body?: string;
}

export interface Denial {
  name: string;
  /** CPU time of the Worker and its Durable Objects, in milliseconds per request. */
  cpuMs: number;
  /** The CPU time of this kind of request, divided by the CPU time of a request with a forged key. The array has one ratio for each round. */
  ratios: number[];
  status: number;
}

const forged = forgedKeys().map((key) => ({ Authorization: `Bearer ${key}` }));
const [aForgedKey = {}] = forged;
const page = { "Sec-Fetch-Site": "none", Accept: "text/html" };
const form = { "Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded" };
const json = { "Content-Type": "application/json" };
const encoded = `%${"25".repeat(5_400)}`;
const madeUpSessions = ["session", "__Host-session", "operator", "__Host-operator"]
  .map((name) => `${name}=${"a".repeat(43)}.${"a".repeat(43)}%3D`)
  .join("; ");
const operator = { Authorization: `Bearer dvop_${"x".repeat(40)}` };

const usual: Shape = { name: "a forged key", path: "/api/v1/me", headers: forged };

/** Ordinary requests come first. The other requests would use more CPU time on a carelessly written server. */
const shapes: Shape[] = [
  usual,
  { name: "no key", path: "/api/v1/me" },
  { name: "an unknown path", path: "/api/v1/none", headers: aForgedKey },
  { name: "a path of 11 KB, encoded again and again", path: `/api/v1/${encoded}`, headers: aForgedKey },
  { name: "a path of 11 KB that looks like keys", path: `/api/v1/${"dvo_".repeat(2_750)}`, headers: aForgedKey },
  { name: "a path of 2,000 dot segments", path: `/api/v1${"/a/..".repeat(2_000)}/me`, headers: aForgedKey },
  { name: "a path of 5,500 segments", path: `/api/v1${"/a".repeat(5_500)}`, headers: aForgedKey },
  { name: "a query of 11 KB", path: `/api/v1/tasks?${"a=%C3%A4&".repeat(1_250)}`, headers: aForgedKey },
  {
    name: "a body of 64 KiB",
    method: "POST",
    path: "/api/v1/tasks",
    headers: { ...aForgedKey, ...json },
    body: `{"${"a".repeat(65_000)}":1}`,
  },
  { name: "a key of 8 KB", path: "/api/v1/me", headers: { Authorization: `Bearer dvo_${"a".repeat(8_000)}` } },
  {
    name: "headers of 8 KB",
    path: "/api/v1/me",
    headers: { ...aForgedKey, "User-Agent": "dvo_".repeat(1_000), Cookie: "a=b; ".repeat(800) },
  },
  {
    name: "OPTIONS with 4 KB of requested headers",
    method: "OPTIONS",
    path: "/api/v1/tasks",
    headers: { Origin: "https://a.example", "Access-Control-Request-Headers": "x-a,".repeat(1_000) },
  },
  { name: "the OpenAPI document, If-None-Match", path: "/api/v1/openapi.json", headers: { "If-None-Match": "*" } },
  { name: "the OpenAPI document", path: "/api/v1/openapi.json" },
  { name: "/health", path: "/health" },
  { name: "a wrong operator token", path: "/operator/api/accounts", headers: operator },
  { name: "a page without sign-in", path: "/keys", headers: page },
  { name: "an unknown page", path: "/none", headers: page },
  { name: "a page with a path of 11 KB", path: `/${encoded}`, headers: page },
  { name: "a page with a path of 5,500 segments", path: "/a".repeat(5_500), headers: page },
  { name: "the sign-in page", path: "/login", headers: page },
  { name: "a made-up session", path: "/", headers: { ...page, Cookie: madeUpSessions } },
  { name: "a made-up operator session", path: "/operator", headers: { ...page, Cookie: madeUpSessions } },
  { name: "a made-up setup link", path: `/setup?token=${"a".repeat(43)}`, headers: page },
  {
    name: "a wrong recovery code",
    method: "POST",
    path: "/login/recovery",
    headers: form,
    body: "email=nobody%40example.com&code=aaaa-aaaa-aaaa-aaaa",
  },
  { name: "a form of 64 KiB", method: "POST", path: "/preferences", headers: form, body: `theme=${"a%25".repeat(16_000)}` },
  { name: "a documentation page, If-None-Match", path: "/docs/api/createTask", headers: { ...page, "If-None-Match": "*" } },
  { name: "a documentation page", path: "/docs/api/createTask", headers: page },
  { name: "a documentation page as Markdown", path: "/docs/api/createTask.md" },
  { name: "the start page of the documentation", path: "/docs", headers: page },
  { name: "an unknown documentation page", path: `/docs/${"createTsk".repeat(200)}`, headers: page },
  { name: "a search", path: "/docs/search?q=rate+limit", headers: page },
  {
    name: "a search for many words of one letter",
    path: `/docs/search?q=${"a e i o u s t n ".repeat(6).trim().replaceAll(" ", "+")}`,
    headers: page,
  },
  { name: "a search as Markdown", path: "/docs/search.md?q=rate+limit+key+webhook" },
  { name: "a search of 11 KB", path: `/docs/search?q=${"a+b+".repeat(2_800)}`, headers: page },
  { name: "llms.txt", path: "/llms.txt" },
  { name: "sitemap.xml", path: "/sitemap.xml" },
];

/**
 * Measures the CPU time of each kind of request, relative to a request with a forged key. Each round first measures requests with forged keys,
 * and then the kind of request.
 */
export async function measureDenials(folder: string): Promise<Denial[]> {
  await prepare(folder, []);
  const served = await serve(bundle("src/index.ts", folder), join(folder, "state"));
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const send = (shape: Shape, forSeconds: number) => flood(served.url, agent, shape, forSeconds, served.pid);
  try {
    const measured: Denial[] = [];
    await send(usual, 15);
    for (const shape of shapes) {
      await send(shape, warmSeconds);
      const runs: { cpuMs: number; ratio: number; status: number }[] = [];
      for (let round = 0; round < rounds; round++) {
        const before = await send(usual, seconds);
        const run = await send(shape, seconds);
        runs.push({ ...run, ratio: run.cpuMs / before.cpuMs });
      }
      const ratios = runs.map(({ ratio }) => ratio);
      measured.push({ name: shape.name, cpuMs: median(runs.map(({ cpuMs }) => cpuMs)), ratios, status: runs[0]?.status ?? 0 });
      console.log(`denials: ${shape.name}, ${median(ratios).toFixed(2)} times`);
    }
    return measured;
  } finally {
    agent.destroy();
    await served.stop();
  }
}

/** Sends one kind of request over all connections. Returns the CPU time in milliseconds per request, and the status of the last response. */
async function flood(url: string, agent: Agent, shape: Shape, forSeconds: number, pid: number): Promise<{ cpuMs: number; status: number }> {
  const endsAt = Date.now() + 1000 * forSeconds;
  const before = cpuMsOf([pid]);
  let [count, status] = [0, 0];
  const one = async () => {
    while (Date.now() < endsAt) status = await sendOne(url, agent, shape, count++);
  };
  await Promise.all(Array.from({ length: connections }, one));
  return { cpuMs: (cpuMsOf([pid]) - before) / count, status };
}

/** Sends one request and returns the status of the response. Does not use `fetch`, because `fetch` normalizes the path. */
const sendOne = (url: string, agent: Agent, { method = "GET", path, headers = {}, body }: Shape, turn: number): Promise<number> =>
  new Promise((resolve, reject) => {
    // If the host is 127.0.0.1, the sign-in pages redirect to localhost, because passkeys require a host name.
    const host = `localhost:${new URL(url).port}`;
    const sent = { Host: host, "CF-Connecting-IP": "198.51.100.7", ...(Array.isArray(headers) ? headers[turn % headers.length] : headers) };
    const asked = request(url, { agent, method, path, headers: sent }, (response) => {
      response.resume().once("end", () => resolve(response.statusCode ?? 0));
    });
    asked.once("error", reject).end(body);
  });
