import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { type IncomingHttpHeaders, request as send } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Agent, agentProgram, type Listener, removeAgentProgram, startAgent } from "./agent.ts";
import { useWorker } from "./services.ts";

// The agent, built with the race detector, before a real Worker.

const { worker, operator } = useWorker();
const folder = mkdtempSync(join(tmpdir(), "developer-overview-agent-test-"));
const agents: Agent[] = [];
let token: string;
const url = () => `http://localhost:${worker.port}`;

beforeAll(async () => {
  token = await operator.makeToken("verify");
});
afterAll(async () => {
  for (const { folder: own } of agents) expect(readFileSync(join(own, "log"), "utf8")).not.toContain("DATA RACE");
  rmSync(folder, { recursive: true, force: true });
  await removeAgentProgram();
});

async function start(listeners: Listener[], settings: object = {}): Promise<Agent> {
  const agent = await startAgent({ url: url(), ...settings }, listeners, { OVERVIEW_TOKEN: token });
  agents.push(agent);
  return agent;
}

interface Answered {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

/** Sends a request with headers that `fetch` would not send. `at`: a URL, or the path of a socket. */
const ask = (at: string, headers: Record<string, string | string[]> | string[], { method = "GET", path = "/", body = "" } = {}) =>
  new Promise<Answered>((resolve, reject) => {
    const where = at.startsWith("/") ? { socketPath: at } : { port: new URL(at).port, host: "127.0.0.1" };
    const request = send({ ...where, method, path, headers }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.once("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
    });
    request.once("error", reject).end(body);
  });
const original = (key: string, more: Record<string, string> = {}) => ({
  Authorization: `Bearer ${key}`,
  "X-Original-Method": "GET",
  "X-Original-URI": "/orders/7?page=2",
  ...more,
});
const post = (at: string, path: string, body: object) =>
  fetch(`${at}${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
const metrics = async ({ url: at }: Agent) => {
  const lines = (await (await fetch(`${at}/metrics`)).text()).trim().split("\n");
  return Object.fromEntries(lines.map((line) => line.split(/ (?=\S+$)/)).map(([name = "", value]) => [name, Number(value)]));
};
const eventually = async <Value>(read: () => Promise<Value>, isDone: (value: Value) => boolean): Promise<Value> => {
  for (const endsAt = Date.now() + 15_000; ; await new Promise((resolve) => setTimeout(resolve, 200))) {
    const value = await read();
    if (isDone(value) || Date.now() > endsAt) return value;
  }
};

describe("A forward listener", () => {
  it("lets a request through with an identity, and denies with the problem of the service, with each way to name method and path", async () => {
    const { id, key } = await operator.makeAccount({ limit: 5000 });
    const agent = await start([
      { serves: "forward", source: "original" },
      { serves: "forward", source: "forwarded" },
      { serves: "forward", source: "envoy" },
    ]);
    const forms = [
      original(key),
      { Authorization: `Bearer ${key}`, "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/orders/7" },
      { Authorization: `Bearer ${key}` },
    ];
    for (const [at, headers] of forms.entries()) {
      const admitted = await ask(agent.urls[at] ?? "", headers, { path: "/orders/7" });
      expect([admitted.status, admitted.headers["x-verified-account"], admitted.headers["x-verified-receipt"]]).toEqual([200, id, "-"]);
      expect(admitted.headers.ratelimit).toContain('"hour"');
      const none = await ask(agent.urls[at] ?? "", { ...headers, Authorization: "" }, { path: "/orders/7" });
      expect([none.status, none.headers["www-authenticate"], none.headers["content-type"]]).toEqual([
        401,
        'Bearer realm="api"',
        "application/problem+json",
      ]);
      expect(JSON.parse(none.body)).toMatchObject({ status: 401, code: "missing_key" });
    }
  });

  it("says every denial but 401 as 403 for nginx, with the true one in a header", async () => {
    const agent = await start([{ serves: "forward", source: "original", deny: 403, scope: "orders:write" }]);
    const { key } = await operator.makeAccount({ limit: 5 });
    const denied = await ask(agent.urls[0] ?? "", original(key, { "X-API-Key": "another" }));
    expect([denied.status, JSON.parse(String(denied.headers["x-verified-problem"])).status]).toEqual([403, 400]);
    expect(String(denied.headers["x-verified-problem"])).toMatch(/^\{"type":"[^"]*","title":"[^"]*","status":400,/);
    expect((await ask(agent.urls[0] ?? "", original(key))).status).toBe(403);
    expect((await ask(agent.urls[0] ?? "", original("made up"))).status).toBe(401);
  });

  it("takes no option from a request, and denies one whose method or path is not stated exactly once", async () => {
    const agent = await start([{ serves: "forward", source: "original", scope: "orders:read" }]);
    const options = {
      "X-Service-Token": "svc_x; missing=pass; unknown=pass",
      "X-Options": "missing=pass",
      "X-Verified-Account": "acc_forged",
    };
    for (const path of ["/?missing=pass", "/verify?unknown=pass", "/team/v1/verify/forward?skip=/", "/health"]) {
      const { status, headers } = await ask(
        agent.urls[0] ?? "",
        { ...options, "X-Original-Method": "GET", "X-Original-URI": path },
        { path },
      );
      expect([status, headers["x-verified-account"]]).toEqual([401, undefined]);
    }
    const { key } = await operator.makeAccount({ limit: 5 });
    const authorization = ["Authorization", `Bearer ${key}`, "Host", "api"];
    for (const headers of [
      authorization,
      [...authorization, "X-Original-Method", "GET"],
      [...authorization, "X-Original-Method", "GET", "X-Original-URI", "/one", "X-Original-URI", "/two"],
      [...authorization, "X-Original-Method", "GET", "X-Original-URI", "/one", "x-original-uri", "/two"],
      [...authorization, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/one"],
    ])
      expect([headers.length, (await ask(agent.urls[0] ?? "", headers)).status]).toEqual([headers.length, 503]);
  });

  it("keeps the options of its address apart from those of others", async () => {
    const agent = await start([
      { serves: "forward", source: "original", missing: "pass", skip: ["/health"] },
      { serves: "forward", source: "original", preflight: "pass", routes: [{ row: "GET /orders/:id" }], origins: ["https://app.example"] },
      { serves: "forward", source: "original" },
    ]);
    const at = async (index: number, headers: Record<string, string>) => (await ask(agent.urls[index] ?? "", headers)).status;
    const none = { "X-Original-Method": "GET", "X-Original-URI": "/orders/7" };
    expect([await at(0, none), await at(1, none), await at(2, none)]).toEqual([200, 401, 401]);
    const health = { ...none, "X-Original-URI": "/health", Authorization: "Bearer made up" };
    expect([await at(0, health), await at(1, health), await at(2, health)]).toEqual([200, 404, 401]);
    const preflight = {
      "X-Original-Method": "OPTIONS",
      "X-Original-URI": "/x",
      Origin: "https://app.example",
      "Access-Control-Request-Method": "PUT",
    };
    expect([await at(1, preflight), await at(2, preflight), await at(1, { ...preflight, Upgrade: "websocket" })]).toEqual([200, 401, 404]);
    const { headers } = await ask(agent.urls[1] ?? "", { ...none, Origin: "https://app.example" });
    expect([headers["access-control-allow-origin"], headers.vary]).toEqual(["https://app.example", "Origin"]);
  });

  it("decides most requests of a busy key by itself, and each is in the log once", async () => {
    const account = await operator.makeAccount({ limit: 5000 });
    const agent = await start([{ serves: "forward", source: "original" }]);
    for (let sent = 0; sent < 600; ) {
      const answers = await Promise.all(Array.from({ length: 4 }, () => ask(agent.urls[0] ?? "", original(account.key))));
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      sent += 4;
    }
    const { 'dvo_agent_decisions_total{by="lease"}': byLease, 'dvo_agent_decisions_total{by="worker"}': byWorker } = await metrics(agent);
    expect(byLease).toBeGreaterThan(540);
    expect(Number(byLease) + Number(byWorker)).toBe(600);
    const usage = await eventually(account.usage, ({ total_requests }) => total_requests.value === 600);
    expect(usage.total_requests.value).toBe(600);
  });

  it("admits exactly 5,000 of 6,000 on a limit of 5,000", { timeout: 120_000 }, async () => {
    const { key } = await operator.makeAccount({ limit: 5000 });
    const agent = await start([{ serves: "forward", source: "original" }]);
    const left = 3_600_000 - (Date.now() % 3_600_000);
    if (left < 60_000) await new Promise((resolve) => setTimeout(resolve, left));
    const statuses: Record<number, number> = {};
    let toSend = 6000;
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        while (toSend-- > 0) {
          const { status } = await ask(agent.urls[0] ?? "", original(key));
          statuses[status] = (statuses[status] ?? 0) + 1;
        }
      }),
    );
    expect(statuses).toEqual({ 200: 5000, 429: 1000 });
  });
});

describe("A verify listener", () => {
  it("answers as the Worker does, counts a call with the same request_id once, and takes reports", async () => {
    const account = await operator.makeAccount({ limit: 5000 });
    const agent = await start([{ serves: "verify" }]);
    const at = agent.urls[0] ?? "";
    const asked = { key: `Bearer ${account.key}`, method: "GET", path: "/orders/7" };
    const ofWorker = await operator.call("POST", "/verify", asked, token);
    const answered = await post(at, "/team/v1/verify", asked);
    expect(answered.headers.get("X-Overview-Protocol")).toBe("1");
    const own = (await answered.json()) as Record<string, unknown>;
    expect(Object.keys(own).toSorted()).toEqual(Object.keys(ofWorker).toSorted());
    expect(own).toMatchObject({ allowed: true, code: null, account: ofWorker.account, key: ofWorker.key, problem: null });
    const usedIn = ({ rate_limits: [limit] }: { rate_limits: { used: number }[] }) => limit?.used;
    const twice = await Promise.all(
      [1, 2, 3].map(async () => (await (await post(at, "/verify", { ...asked, request_id: "one" })).json()) as never),
    );
    expect(new Set(twice.map(usedIn)).size).toBe(1);
    const many = [];
    for (let n = 0; n < 50; n++)
      many.push(
        (await (await post(at, "/verify", { ...asked, path: `/many/${n}`, request_id: `many ${n}` })).json()) as { receipt: string },
      );
    expect((await metrics(agent))['dvo_agent_decisions_total{by="lease"}']).toBeGreaterThan(30);
    const reports = many.map(({ receipt }) => ({ receipt, status: 201, duration_ms: 5, route: "/many/{id}" }));
    expect(await (await post(at, "/reports", { reports })).json()).toMatchObject({
      data: reports.map((_, index) => ({ index, status: 200 })),
    });
    const entries = await eventually(
      account.admitted,
      (all) => all.filter(({ status }: { status: number }) => status === 201).length === 50,
    );
    expect(entries.filter(({ status, route }: { status: number; route: string }) => status === 201 && route === "/many/{id}")).toHaveLength(
      50,
    );
  });

  it("passes findings of shadow mode on", async () => {
    const agent = await start([{ serves: "verify" }]);
    const [at = ""] = agent.urls;
    const none = { account: null, key: null, credential: null };
    const message = {
      holder: "api-1",
      sequence: 1,
      findings: [{ ...none, code: "invalid_key", own: "allowed", count: 3, path: "/orders/7" }],
    };
    for (let sent = 0; sent < 2; sent++) expect((await post(at, "/shadow", message)).status).toBe(204);
    expect((await operator.call("GET", "/shadow")).findings).toMatchObject([{ code: "invalid_key", count: 3, differs: true }]);
    expect((await post(at, "/shadow", { findings: [] })).status).toBe(422);
  });

  it("says what is wrong with a call", async () => {
    const agent = await start([{ serves: "verify" }]);
    const at = agent.urls[0] ?? "";
    const said = async (response: Promise<Response>) => {
      const { status, code } = (await (await response).json()) as { status: number; code: string };
      return [status, code];
    };
    expect(await said(post(at, "/verify", { kee: "x" }))).toEqual([400, "invalid_body"]);
    expect(await said(post(at, "/verify", { key: "x", cost: -5 }))).toEqual([422, "invalid_body"]);
    expect(await said(fetch(`${at}/verify`, { method: "POST", body: "{}" }))).toEqual([415, "unsupported_media_type"]);
    expect(await said(post(at, "/leases", {}))).toEqual([404, "not_found"]);
    expect(await said(post(at, "/verify", { key: "x".repeat(3e6) }))).toEqual([413, "body_too_large"]);
    const rows = [null, { receipt: "x", status: "odd" }, { receipt: "x", status: 200, duration_ms: 1 }];
    const { data } = (await (await post(at, "/reports", { reports: rows })).json()) as { data: { status: number }[] };
    expect(data.map(({ status }) => status)).toEqual([422, 422, 200]);
    expect((await fetch(`${at}/health`)).status).toBe(200);
    expect(await (await post(at, "/verify", { key: "" })).json()).toMatchObject({
      allowed: false,
      status: 401,
      code: "missing_key",
      receipt: null,
    });
  });
});

describe("The agent", () => {
  it("takes a new token over without a restart, and keeps its own if the file is gone", async () => {
    const file = join(folder, "token");
    writeFileSync(file, await operator.makeToken("verify"));
    const { id, key } = await operator.makeAccount({ limit: 5000 });
    const agent = await startAgent({ url: url(), token_file: file }, [{ serves: "forward", source: "original" }], {});
    agents.push(agent);
    const account = async () => (await ask(agent.urls[0] ?? "", original(key))).headers["x-verified-account"];
    for (let n = 0; n < 20; n++) expect(await account()).toBe(id);
    rmSync(file);
    await new Promise((resolve) => setTimeout(resolve, 6000));
    expect(await account()).toBe(id);
    writeFileSync(file, `${await operator.makeToken("verify")}\n`);
    await eventually(
      async () => readFileSync(join(agent.folder, "log"), "utf8"),
      (text) => text.includes("a new token"),
    );
    const tokens = (await operator.call("GET", "/tokens?limit=100")).data.filter(({ name }: { name: string }) => name === "Test");
    const old = tokens
      .toSorted((one: { created_at: string }, other: { created_at: string }) => (one.created_at < other.created_at ? -1 : 1))
      .at(-2);
    await new Promise((resolve) => setTimeout(resolve, 3000));
    await operator.call("DELETE", `/tokens/${old.id}`);
    await new Promise((resolve) => setTimeout(resolve, 6000));
    expect(await account()).toBe(id);
  });

  it("listens on a socket that its group may use, even if an earlier one was killed", async () => {
    const socket = join(folder, "agent.sock");
    const { id, key } = await operator.makeAccount({ limit: 100 });
    for (let life = 0; life < 2; life++) {
      const agent = await start([{ serves: "forward", source: "original", listen: `unix:${socket}` }]);
      expect((await ask(socket, original(key))).headers["x-verified-account"]).toBe(id);
      expect(statSync(socket).mode & 0o777).toBe(0o660);
      await agent.kill();
    }
  });

  it("responds with 503 while the Worker is away, and lets known credentials through if it is told to", async () => {
    const { key } = await operator.makeAccount({ limit: 100 });
    const nowhere = await startAgent({ url: "http://127.0.0.1:9" }, [{ serves: "forward", source: "original" }]);
    const { status, headers, body } = await ask(nowhere.urls[0] ?? "", original(key));
    expect([status, Number(headers["retry-after"]) > 0, JSON.parse(body).code]).toEqual([503, true, "unavailable"]);
    expect(await (await fetch(`${nowhere.url}/healthz`)).json()).toEqual({ status: "ok", worker_away: true });
    expect((await metrics(nowhere)).dvo_agent_worker_away).toBe(1);
  });

  it("ends with a message if its settings cannot be right", async () => {
    const program = await agentProgram();
    const run = async (args: string[], env: Record<string, string> = { OVERVIEW_TOKEN: "svc_test" }) => {
      try {
        await promisify(execFile)(program, [...args, "-check"], { env: { PATH: process.env.PATH, ...env } as never });
        return "fine";
      } catch (error) {
        return (error as { stderr: string }).stderr;
      }
    };
    const base = ["-url", "http://localhost:8787", "-listen"];
    expect(await run([...base, "127.0.0.1:1; forward; source=original; scope=a; cost=5; skip=/health,/ready; deny=403"])).toBe("fine");
    expect(await run([...base, "0.0.0.0:1; verify; remote=true"])).toBe("fine");
    expect(await run([...base, "0.0.0.0:1; verify"])).toContain("remote");
    expect(await run([...base, "127.0.0.1:1; verify"], {})).toContain("OVERVIEW_TOKEN");
    expect(await run([...base, "127.0.0.1:1; forward"])).toContain("source");
    expect(await run([...base, "127.0.0.1:1; forward; source=original; mising=pass"])).toContain("mising");
    expect(await run([...base, "127.0.0.1:1; forward; source=original; missing=yes"])).toContain("Missing");
    expect(await run([...base, "127.0.0.1:1; forward; source=original; cost=5000"])).toContain("cost");
    expect(await run([...base, "127.0.0.1:1; guess"])).toContain("serves");
    expect(await run(["-url", "localhost", "-listen", "127.0.0.1:1; verify"])).toContain("URL");
    expect(await run(["-url", "http://localhost:8787"])).toContain("no listener");
    expect(await run([...base, "127.0.0.1:1; verify", "-on-unavailable", "allow"])).toContain("allow");
    const file = join(folder, "agent.json");
    writeFileSync(file, '{"url": "http://localhost:8787", "listener": []}');
    expect(await run(["-config", file])).toContain("listener");
  });
});
