import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import cases from "../../../integrations/cases.json" with { type: "json" };
import { root } from "../../node/project.ts";
import { type Service, stopAll } from "../services.ts";
import { type FakeWorker, startFakeWorker } from "./fake-worker.ts";
import { type Behind, clients, proxies, removeGoProgram, startClient } from "./services.ts";

// Every client runs every case of integrations/cases.json, before a server that plays a Worker. `npm run test:integrations` then prints the matrix.

interface Case {
  name: string;
  rule: number;
  options?: keyof typeof cases.options;
  request: { method: string; path: string; headers: [string, string][] };
  body?: string;
  worker?: { status: number; code: string; retryAfter?: number };
  /** What the handler sees: null if it must not run, and "nobody" for a request without an identity. */
  handler: null | "nobody" | { account?: string; claims?: string[] };
  response: { status: number; headers?: Record<string, string | null> };
  /** What the Worker must be told of the request, and how often it is called. */
  call?: Record<string, unknown>;
  calls?: number;
  report?: { status: number };
  reports?: number;
  /** What the Worker must be told in shadow mode. */
  finding?: { code: string | null; own: string; path?: string };
  exposes?: string[];
  withinMs?: number;
  except?: Record<string, string>;
}

const all = cases.cases as unknown as Case[];
const matrix: Record<string, Record<string, string>> = {};
const matrixFile = join(root, "node_modules/.cache/cases.json");

afterAll(async () => {
  mkdirSync(join(matrixFile, ".."), { recursive: true });
  writeFileSync(matrixFile, JSON.stringify(matrix));
  await stopAll();
  await removeGoProgram();
});

/** Sends a request exactly as it is written. Returns the status, the headers and the body. */
function send(
  { url }: Service,
  { method, path, headers }: Case["request"],
  body = "",
): Promise<{ status: number; headers: Headers; body: string }> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.once("error", reject).once("close", () => {
      // A provisional answer comes before the final one.
      const final = text.replace(/^(?:HTTP\/1\.1 1\d\d.*?\r\n\r\n)+/s, "");
      const [head = "", ...rest] = final.split("\r\n\r\n");
      const [line = "", ...lines] = head.split("\r\n");
      const named = lines.map((each) => each.split(/: ?(.*)/s, 2) as [string, string]).filter(([name]) => name !== "");
      resolve({ status: Number(line.split(" ")[1]), headers: new Headers(named), body: rest.join("\r\n\r\n") });
    });
    const hasConnection = headers.some(([name]) => name.toLowerCase() === "connection");
    const lines = [...(hasConnection ? [] : [["Connection", "close"]]), ...headers].map(([name, value]) => `${name}: ${value}`);
    socket.write([`${method} ${path} HTTP/1.1`, "Host: api", ...lines, "", body].join("\r\n"));
  });
}

const stats = async ({ own }: Behind) =>
  JSON.parse((await send(own, { method: "GET", path: "/_stats", headers: [] })).body.replace(/^[0-9a-f]+\r\n|\r\n0\r\n\r\n$/g, ""));

it("Each reason why a client cannot hold a case is in the protocol", () => {
  const protocol = readFileSync(join(root, "integrations/protocol.md"), "utf8");
  const reasons = new Set(all.flatMap(({ except = {} }) => Object.values(except)));
  expect([...reasons].filter((reason) => !protocol.includes(reason))).toEqual([]);
});

describe.each([...clients, ...proxies])("The client for %s", (name) => {
  let worker: FakeWorker;
  const services = new Map<string, Behind>();
  const awaited: { name: string; key: string; status: number | null }[] = [];

  beforeAll(async () => {
    worker = await startFakeWorker();
    for (const [options, given] of Object.entries(cases.options))
      services.set(options, await startClient(name, "deny", { OVERVIEW_URL: worker.url, OPTIONS: JSON.stringify(given) }));
  });
  afterAll(async () => {
    await stopAll();
    await worker.stop();
  });

  it.each(all.map((each, index) => [each.name, each, index] as const))("%s", async (_, each, index) => {
    const result = matrix[each.name] ?? {};
    matrix[each.name] = result;
    const reason = each.except?.[name];
    result[name] = reason ?? "fails";
    if (reason !== undefined) return;
    const key = `case${index}`;
    const filled = (text: string) => text.replaceAll("{key}", key);
    const service = services.get(each.options ?? "default") as Behind;
    const token = filled(each.request.headers.map(([, value]) => value).find((value) => value.includes("{key}")) ?? "").replace(
      /^Bearer /,
      "",
    );
    if (each.worker && token !== "") worker.denials.set(token, each.worker);
    const before = { calls: worker.calls.length, ...(await stats(service)) };
    const startedAt = performance.now();
    const headers = each.request.headers.map(([field, value]) => [field, filled(value)] as [string, string]);
    const response = await send(service, { ...each.request, path: filled(each.request.path), headers }, each.body);
    if (each.withinMs) expect(performance.now() - startedAt).toBeLessThan(each.withinMs);
    expect(response.status).toBe(each.response.status);
    for (const [field, value] of Object.entries(each.response.headers ?? {}))
      expect([field, response.headers.get(field)]).toEqual([field, value]);
    const exposed = response.headers.get("Access-Control-Expose-Headers") ?? "";
    for (const field of each.exposes ?? []) expect(exposed.split(/, ?/)).toContain(field);
    const { runs, decisions } = await stats(service);
    // A denial that needs no call is a decision, too.
    if (each.handler === null && clients.includes(name)) expect(decisions - before.decisions).toBe(1);
    expect(runs - before.runs).toBe(each.handler === null ? 0 : 1);
    if (each.handler !== null && each.response.status !== 404 && each.request.method !== "HEAD") {
      const seen = JSON.parse(/\{.*\}/s.exec(response.body)?.[0] ?? "{}");
      if (each.handler === "nobody") expect(seen).toEqual({ account: "nobody" });
      else expect(seen).toMatchObject(JSON.parse(filled(JSON.stringify(each.handler))));
    }
    const calls = worker.calls.slice(before.calls);
    if (each.calls !== undefined) expect(calls).toHaveLength(each.calls);
    const [call] = calls;
    for (const [member, value] of Object.entries(each.call ?? {}))
      expect([member, (call as Record<string, unknown> | undefined)?.[member] ?? null]).toEqual([member, value]);
    if (each.report || each.reports === 0) awaited.push({ name: each.name, key: token, status: each.report?.status ?? null });
    const { finding } = each;
    if (finding) {
      const isTold = () =>
        worker.findings.some((found) => Object.entries(finding).every(([member, value]) => found[member as "code"] === value));
      await vi.waitFor(() => expect([worker.findings, isTold()]).toEqual([worker.findings, true]), { timeout: 3000, interval: 100 });
    }
    result[name] = "holds";
  });

  it("reports the responses of all cases that say so, and no others", async () => {
    await new Promise((resolve) => setTimeout(resolve, 1500));
    for (const { name: of, key, status } of awaited) {
      const statuses = worker.reports.filter(({ receipt }) => receipt.startsWith(`${key} `)).map((report) => report.status);
      expect([of, statuses]).toEqual([of, status === null ? [] : [status]]);
    }
  });
});
