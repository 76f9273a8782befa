/** @module-tag process */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, globSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { parseEnv } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
import { assets } from "../../src/dashboard/assets.ts";
import { hourMs } from "../../src/lib/time/clock.ts";
import { ask, type Listener, listenersOf, loopback } from "./listeners.ts";
import { copyOf, freePort, removeProject, run } from "./project.ts";

// Runs `npm start` and the other commands of the README in a fresh copy of the project. All tests use the same Worker, and each test
// depends on the tests before it.

const isLong = inject("isLong");
const long = it.runIf(isLong);

let folder: string;
let port: number;
let running: Started;

interface Started {
  npm: ChildProcess;
  /** The lines that `npm start` printed before it was ready, and the line `Ready`. */
  lines: string[];
  demoKey: string;
}

/** Runs `npm start` in a separate process group, as a terminal would. Returns when the Worker is ready. */
async function start(...args: string[]): Promise<Started> {
  const npm = spawn("npm", ["start", "--silent", ...args], { cwd: folder, env: { ...process.env, PORT: String(port) }, detached: true });
  let output = "";
  for (const stream of [npm.stdout, npm.stderr]) stream.on("data", (chunk) => (output += chunk));
  const isReady = () => output.includes("\nReady\n");
  await vi.waitUntil(() => isReady() || npm.exitCode !== null, { timeout: 200_000, interval: 50 }).catch(() => {});
  if (!isReady()) throw new Error(`npm start did not become ready:\n${output}`);
  const lines = output.trim().split("\n");
  return { npm, lines, demoKey: lines.find((line) => line.startsWith("Demo API key: "))?.slice("Demo API key: ".length) ?? "" };
}

/** Returns the process ids and the command lines of the processes that run in the folder. */
function processesOfFolder(): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
      if (!environment.includes(`PWD=${folder}`)) return [];
      return [`${pid} ${readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")}`];
    } catch {
      return [];
    }
  });
}

/**
 * Sends a signal to npm. If `toGroup` is true, sends the signal to the whole process group of npm, as Ctrl-C does. Then waits until npm has
 * ended.
 */
async function stop({ npm }: Started, signal: NodeJS.Signals, toGroup: boolean): Promise<void> {
  const exited = new Promise((resolve) => npm.once("exit", resolve));
  process.kill(toGroup ? -(npm.pid ?? 0) : (npm.pid ?? 0), signal);
  await exited;
}

/** Fails if a process still runs in the folder after eight seconds. */
const expectNoProcesses = () => vi.waitFor(() => expect(processesOfFolder()).toEqual([]), { timeout: 8000, interval: 100 });

/** Deletes the records of applied migrations from all local databases, so that none can be applied again. */
function forgetMigrations(): void {
  for (const file of globSync(join(folder, ".wrangler/state/v3/d1/*/*.sqlite"))) {
    const database = new DatabaseSync(file);
    database.exec("DROP TABLE IF EXISTS d1_migrations");
    database.close();
  }
}

/** Sets the last run of each scheduled job back by an hour, as after a pause. */
function backdateJobs(): void {
  for (const file of globSync(join(folder, ".wrangler/state/v3/d1/*/*.sqlite"))) {
    const database = new DatabaseSync(file);
    const [jobs] = database.prepare("SELECT name FROM sqlite_schema WHERE name = 'jobs'").all();
    if (jobs) expect(database.prepare("UPDATE jobs SET ran_at = ran_at - 3600000").run().changes).toBeGreaterThan(0);
    database.close();
  }
}

/** Returns the time of the latest run of a scheduled job, in milliseconds since the epoch. */
function latestJob(): number {
  for (const file of globSync(join(folder, ".wrangler/state/v3/d1/*/*.sqlite"))) {
    const database = new DatabaseSync(file, { readOnly: true });
    const [jobs] = database.prepare("SELECT name FROM sqlite_schema WHERE name = 'jobs'").all();
    const latest = jobs ? Number(database.prepare("SELECT max(ran_at) AS latest FROM jobs").get()?.latest) : null;
    database.close();
    if (latest !== null) return latest;
  }
  throw new Error("No database has the table of the scheduled jobs.");
}

const url = () => `http://localhost:${port}`;
const api = async (path: string, key: string, init: RequestInit = {}) => {
  const response = await fetch(`${url()}/api/v1${path}`, { ...init, headers: { Authorization: `Bearer ${key}`, ...init.headers } });
  // biome-ignore lint/suspicious/noExplicitAny: the body can be any JSON value
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
};
const command = (name: string, ...args: string[]) => run("npm", ["run", "--silent", name, "--", ...args], { cwd: folder });

beforeAll(async () => {
  folder = copyOf(inject("made").folder);
  port = await freePort();
});

afterAll(async () => {
  if (running?.npm.exitCode === null && running.npm.signalCode === null) await stop(running, "SIGINT", true);
  await expectNoProcesses();
  removeProject(folder);
});

describe("Each command", () => {
  it("names a migration that cannot be applied and suggests --fresh, with which npm start succeeds", { tags: ["long"] }, async () => {
    rmSync(join(folder, ".wrangler/state/migrated"));
    forgetMigrations();
    const env = { ...process.env, PORT: String(port) };
    const commands = [
      ["start", "--silent"],
      ["run", "--silent", "key", "--", "--name", "x"],
    ];
    for (const command of isLong ? commands : commands.slice(0, 1)) {
      const { code, err } = await run("npm", command, { cwd: folder, env });
      expect([code, err.trim()]).toEqual([1, expect.stringMatching(/^\d+_\w+\.sql could not be applied: .*npm start -- --fresh$/s)]);
    }
    running = await start("--", "--fresh");
  });
});

describe("npm start", () => {
  it("prints the addresses, the demo key and a curl command, and then Ready", () => {
    expect(running.lines.slice(-5)).toEqual([
      `Overview: ${url()}`,
      `API: ${url()}/api/v1`,
      expect.stringMatching(/^Demo API key: dvo_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}$/),
      expect.stringMatching(/^curl /),
      "Ready",
    ]);
  });

  it("shows its key in no command line, and other users cannot read its files", () => {
    const processes = processesOfFolder();
    expect(processes.length).toBeGreaterThan(2);
    expect(processes.filter((each) => each.includes(running.demoKey.slice(0, 30)))).toEqual([]);
    const state = join(folder, ".wrangler/state");
    const files = [join(folder, ".dev.vars"), state];
    files.push(...readdirSync(state, { recursive: true, encoding: "utf8" }).map((path) => join(state, path)));
    expect(files.filter((path) => path.endsWith(".sqlite")).length).toBeGreaterThan(3);
    const modes = files.map((path) => [path, (statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077]);
    expect(modes.filter(([, permissionsOfOthers]) => permissionsOfOthers !== 0)).toEqual([]);
  });

  it("prints a curl command that works", async () => {
    const { code, out } = await run("sh", ["-c", running.lines.at(-2) ?? ""]);
    expect([code, JSON.parse(out).data.length]).toEqual([0, 25 - 1]);
  });

  it("creates sample usage of two months, so that a month can be compared with the month before", async () => {
    const { body } = await api("/usage", running.demoKey);
    expect(body.total_requests.value).toBeGreaterThan(10_000);
    expect(body.total_requests.previous).toBeGreaterThan(10_000);
    expect(body.success_rate.value).toBeGreaterThan(90);
    expect((await api("/tasks?limit=100", running.demoKey)).body.has_more).toBe(true);
    const overview = await fetch(url(), { headers: { "Sec-Fetch-Site": "none" } });
    expect(await overview.text()).toContain("--empty</code> for none");
  });

  it("serves the style sheet of the overview, which browsers may keep forever", async () => {
    const response = await fetch(`${url()}${assets["style.css"]}`);
    const { headers } = response;
    expect([response.status, headers.get("X-Content-Type-Options"), headers.get("Cache-Control")]).toEqual([
      200,
      "nosniff",
      "public, max-age=31536000, immutable",
    ]);
    expect((await fetch(`${url()}/icon.svg`)).headers.get("Cache-Control")).toBe("public, max-age=300");
  });

  it("exits with 2 if the port is in use, and explains how to choose another port", async () => {
    const { code, err } = await run("npm", ["start", "--silent"], { cwd: folder, env: { ...process.env, PORT: String(port) } });
    expect(code).toBe(2);
    expect(err).toContain(`Port ${port} is taken. Choose another: PORT=`);
  });

  long.each([
    [{ PORT: "http" }, [], "PORT must be a number"],
    [{ PORT: "70000" }, [], "PORT must be a number"],
    [{}, ["--", "--frehs"], "Unknown option '--frehs'"],
  ])("exits with 2 and an explanation for the environment %j and the arguments %j", { tags: ["long"] }, async (env, args, message) => {
    const { code, err } = await run("npm", ["start", "--silent", ...args], { cwd: folder, env: { ...process.env, ...env } });
    expect([code, err.includes(message)]).toEqual([2, true]);
  });
});

describe("The ports of npm start", () => {
  const foreign = "foreign.example";
  /** The headers that a page of another site can make a browser send, or a program of another user can send. */
  const askers = (port: number): Record<string, Record<string, string>> => ({
    "a foreign Host": { Host: `${foreign}:${port}` },
    "a foreign Host that claims the same site": { Host: `${foreign}:${port}`, "Sec-Fetch-Site": "same-origin" },
    "a foreign Host that claims a local URL": { Host: `${foreign}:${port}`, "MF-Original-URL": `http://localhost:${port}/` },
    "a foreign Host that claims the URL of a trigger": {
      Host: `${foreign}:${port}`,
      "MF-Original-URL": `http://localhost:${port}/cdn-cgi/local/scheduled`,
    },
    "a foreign Origin": { Origin: `http://${foreign}`, "Sec-Fetch-Site": "cross-site" },
    "a foreign Origin that opens a WebSocket": {
      Origin: `http://${foreign}`,
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    },
  });
  const paths = [
    ...["/", "/keys", "/settings", "/operator", "/api/v1/me", "/team/v1/accounts", "/metrics"],
    ...["/json", "/json/list", "/json/version", "/ws"],
    ...["scheduled", "email", "platform-proxy", "explorer", "explorer/api/d1/database", "explorer/api/local/workers"].map(
      (path) => `/cdn-cgi/local/${path}`,
    ),
    ...["/cdn-cgi/mf/scheduled", "/cdn-cgi/handler/scheduled", "/cdn-cgi/explorer"],
    ...["/core/dev-registry", "/core/do-storage/KeyGuard", "/core/store-temp-file?prefix=a", "/browser/sessionIds"],
  ];
  const listeners = () => listenersOf(processesOfFolder().map((each) => each.split(" ")[0] ?? ""));

  it("are its own port and three of the local runtime, all reachable only from this machine", async () => {
    const found = listeners();
    expect(found.map(({ address }) => address)).toEqual(found.map(() => loopback));
    const kinds = await Promise.all(
      found.map(async (each) => ({ ...each, body: (await ask(each.port, "/", { "Sec-Fetch-Site": "none" })).body })),
    );
    // Two ports belong to the Worker: the port of the overview, and the port to which wrangler's proxy sends the requests.
    expect(kinds.filter(({ body }) => body.includes("<html")).length).toBe(2);
    // Two ports let workerd call its parent processes. They require a secret.
    expect(kinds.filter(({ body }) => body === "Forbidden").length).toBe(2);
    expect(found.length).toBe(4);
    expect(found.some((each) => each.port === port)).toBe(true);
  });

  it("serve only public pages to a foreign Host or Origin: no account, no secret, no debugger, no trigger of the runtime", async () => {
    const secrets = Object.values(parseEnv(readFileSync(join(folder, ".dev.vars"), "utf8"))).flatMap(
      (value) => value?.split(":").at(-1) ?? [],
    );
    expect(secrets.filter((secret) => secret.length > 20).length).toBeGreaterThan(4);
    for (const { port: each } of listeners())
      for (const [asker, headers] of Object.entries(askers(each))) {
        for (const path of paths) {
          const { status, body } = await ask(each, path, headers);
          // The sign-in page of operators is public. It shows nothing without a token.
          const isPublic = path === "/operator" && body.includes("<html");
          expect([asker, path, status], `port ${each}`).toEqual([asker, path, isPublic ? status : expect.toSatisfy((code) => code >= 303)]);
          for (const text of [...secrets, "acc_", "webSocketDebuggerUrl"]) expect(body).not.toContain(text);
        }
        for (const path of ["/docs", "/docs/api/getMe", "/llms.txt", "/login", "/api/v1/openapi.json"])
          for (const secret of secrets) expect((await ask(each, path, headers)).body).not.toContain(secret);
      }
  });

  it("run the scheduled jobs only at the current time, because every web page can trigger them with an image", async () => {
    const inFuture = Date.now() + 400 * 24 * hourMs;
    expect((await ask(port, `/cdn-cgi/local/scheduled?time=${inFuture}`, { "Sec-Fetch-Site": "cross-site" })).status).toBe(200);
    expect(latestJob()).toBeLessThanOrEqual(Date.now());
    expect(latestJob()).toBeGreaterThan(Date.now() - 60_000);
    expect((await api("/usage", running.demoKey)).body.total_requests.previous).toBeGreaterThan(10_000);
  });
});

describe("The command npm run receiver", () => {
  it("prints webhook requests and verifies their signatures", async () => {
    const port = await freePort();
    const key = running.demoKey;
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ url: `http://127.0.0.1:${port}/`, event_types: ["task.created"] });
    const webhook = (await api("/webhooks", key, { method: "POST", headers, body })).body;
    const receiver = spawn("npm", ["run", "--silent", "receiver", "--", String(port), webhook.secret], { cwd: folder, detached: true });
    let output = "";
    for (const stream of [receiver.stdout, receiver.stderr]) stream.on("data", (chunk) => (output += chunk));
    const waitForOutput = (text: string) => vi.waitFor(() => expect(output).toContain(text), { timeout: 20_000, interval: 50 });
    try {
      await waitForOutput("Ready.");
      await api("/tasks", key, { method: "POST", headers, body: '{"title":"Arrive"}' });
      await waitForOutput('"title":"Arrive"');
      expect(output).toContain("signature valid");
      const { body: rotated } = await api(`/webhooks/${webhook.id}/rotate-secret`, key, { method: "POST" });
      expect(rotated.secret).not.toBe(webhook.secret);
      await api(`/webhooks/${webhook.id}/test`, key, { method: "POST" });
      await waitForOutput("webhook.test");
      expect(output).toContain("signature: No matching signature found");
    } finally {
      process.kill(-(receiver.pid ?? 0), "SIGTERM");
      await api(`/webhooks/${webhook.id}`, key, { method: "PATCH", headers, body: '{"status":"disabled"}' });
    }
  });

  it("exits with 1 and its usage if the port or the secret is invalid", async () => {
    for (const args of [["http"], ["70000"], ["4000", "secret"]]) {
      const { code, err } = await command("receiver", ...args);
      expect([code, err.includes("Usage: npm run receiver")]).toEqual([1, true]);
    }
  });
});

describe("The commands npm run key and npm run account", () => {
  it("read the local databases without a debug port", async () => {
    const script = `
      import { execFileSync } from "node:child_process";
      import { withDatabases } from "./scripts/local.ts";
      import { listenersOf } from "./test/node/listeners.ts";
      await withDatabases(async () => {
        const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(process.pid)], { encoding: "utf8" });
        console.log(JSON.stringify(listenersOf([String(process.pid), ...children.trim().split(/\\s+/)])));
      });`;
    writeFileSync(join(folder, "listeners.ts"), script);
    const { out, err } = await run(process.execPath, ["listeners.ts"], { cwd: folder });
    const found: Listener[] = JSON.parse(out.trim() || "[]");
    // One port is the port of workerd, and the other lets workerd call its parent process.
    expect([err, found.map(({ address }) => address)]).toEqual(["", [loopback, loopback]]);
    const responses = await Promise.allSettled(found.map((each) => ask(each.port, "/", {})));
    expect(responses.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  it("create a key while the Worker runs, and print only the key", async () => {
    const { code, out, err } = await command("key", "--name", "Limited", "--scopes", "tasks:read,users:read", "--limit", "7");
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(/^dvo_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}\n$/);
    const { body } = await api("/me", out.trim());
    expect(body).toMatchObject({ key: { name: "Limited", scopes: ["users:read", "tasks:read"] }, rate_limit: { limit: 7, used: 1 } });
  });

  long("create a further account, and print its id and a key with every scope", { tags: ["long"] }, async () => {
    const { out } = await command("account", "--name", "Second", "--email", "second@example.com");
    const [id, key] = out.trim().split("\n");
    expect((await api("/me", key ?? "")).body.account).toEqual({ id, name: "Second" });
    expect((await api("/users", key ?? "")).body.data).toEqual([]);
    const { out: secondKey } = await command("key", "--name", "Further", "--account", id ?? "");
    expect((await api("/me", secondKey.trim())).body.account.id).toBe(id);
  });

  it("wait while the Worker writes to the same database", async () => {
    const endsAt = Date.now() + 60_000;
    let isDone = false;
    const headers = { "Content-Type": "application/json" };
    const write = async () => {
      while (!isDone && Date.now() < endsAt)
        await api("/tasks", running.demoKey, { method: "POST", body: '{"title":"One of many"}', headers }).catch(() => null);
    };
    const writing = Promise.all([write(), write(), write(), write()]);
    const codes = [];
    for (let n = 0; n < 4; n++) codes.push((await command("key", "--name", `Key ${n}`)).code);
    isDone = true;
    await writing;
    expect(codes).toEqual([0, 0, 0, 0]);
  });

  const invalidCommands = [
    ["key", [], 2, "--name takes"],
    ["key", ["--name", "x", "--scopes", "all"], 2, 'no scope "all"'],
    ["key", ["--name", "x", "--limit", "0"], 2, "--limit takes"],
    ["key", ["--name", "x", "--limit", "5001"], 1, "at most 5000"],
    ["key", ["--name", "x", "--account", "acc_none"], 2, "no account acc_none"],
    ["key", ["--nmae", "x"], 2, "Usage:"],
    ["account", ["--name", "x"], 2, "--email takes"],
  ] as const;

  it.each(isLong ? invalidCommands : invalidCommands.slice(-1))(
    "reject npm run %s with %j, with exit code %i and an explanation",
    { tags: ["long"] },
    async (name, args, exitCode, message) => {
      const { code, out, err } = await command(name, ...args);
      expect([code, out]).toEqual([exitCode, ""]);
      expect(err).toContain(message);
      expect(err).not.toMatch(/\n\s+at /);
    },
  );
});

describe("A restarted Worker", () => {
  long("keeps its data, its key and the count of the hour after Ctrl-C, which leaves no process", { tags: ["long"] }, async () => {
    const { code, out, err } = await command("key", "--name", "Counted", "--limit", "5");
    expect([code, err]).toEqual([0, ""]);
    const key = out.trim();
    const hoursEnd: (string | null)[] = [];
    const me = async () => {
      const { status, headers } = await api("/me", key);
      hoursEnd.push(headers.get("X-RateLimit-Reset"));
      return status;
    };
    for (let n = 0; n < 5; n++) expect(await me()).toBe(200);
    const headers = { "Content-Type": "application/json" };
    const task = await api("/tasks", running.demoKey, { method: "POST", body: '{"title":"Kept"}', headers });
    await stop(running, "SIGINT", true);
    await expectNoProcesses();

    const { demoKey } = running;
    const startedAt = Date.now();
    running = await start();
    expect(running.demoKey).toBe(demoKey);
    expect(Date.now() - startedAt).toBeLessThan(30_000);
    const status = await me();
    // A new hour may have begun meanwhile.
    expect(status).toBe(new Set(hoursEnd).size === 1 ? 429 : 200);
    expect((await api(`/tasks/${task.body.id}`, demoKey)).body.title).toBe("Kept");
  });

  long("starts after a SIGTERM to npm only, which leaves no process", { tags: ["long"] }, async () => {
    await stop(running, "SIGTERM", false);
    await expectNoProcesses();
    running = await start();
  });

  it("admits no more than the limit after a SIGKILL under load, and has logged each response that is older than two seconds", async () => {
    const { out } = await command("key", "--name", "Killed", "--limit", "500");
    const key = out.trim();
    /** `hourEndsAt`: the end of the hour for which the request was counted. */
    const admitted: { id: string; receivedAt: number; hourEndsAt: string | null }[] = [];
    let denied = 0;
    const send = async () => {
      const response = await fetch(`${url()}/api/v1/me`, { headers: { Authorization: `Bearer ${key}` } }).catch(() => null);
      const header = (name: string) => response?.headers.get(name) ?? null;
      if (response?.status === 200)
        admitted.push({ id: header("X-Request-Id") ?? "", receivedAt: Date.now(), hourEndsAt: header("X-RateLimit-Reset") });
      if (response?.status === 429) denied++;
    };
    await Promise.all(Array.from({ length: 100 }, send));
    const steady: Promise<void>[] = [];
    for (let n = 0; n < 100; n++) {
      steady.push(send());
      // Spreads the requests over four seconds. When the processes are killed, some requests are therefore more than two seconds old.
      await sleep(40);
    }
    const load = [...steady, ...Array.from({ length: 200 }, send)];
    await load[120 + Math.floor(Math.random() * 40)];
    const killedAt = Date.now();
    const exited = new Promise((resolve) => running.npm.once("exit", resolve));
    for (const line of processesOfFolder()) process.kill(Number(line.split(" ")[0]), "SIGKILL");
    await exited;
    await Promise.all(load);
    const admittedBefore = admitted.length;

    backdateJobs();
    running = await start();
    while (denied === 0) await Promise.all(Array.from({ length: 40 }, send));
    // The hour may end during the test.
    for (const ofHour of Map.groupBy(admitted, ({ hourEndsAt }) => hourEndsAt).values()) expect(ofHour.length).toBeLessThanOrEqual(500);
    expect(admitted.length).toBeGreaterThanOrEqual(500 - 63 - (400 - admittedBefore));
    const logged = new Set<string>();
    for (let path: string | null = "/activity?limit=100&path=/api/v1/me"; path; ) {
      const { body } = await api(path, running.demoKey);
      for (const entry of body.data) logged.add(entry.id);
      path = body.has_more && logged.size < 1000 ? `/activity?limit=100&path=/api/v1/me&cursor=${body.next_cursor}` : null;
    }
    const settled = admitted.filter(({ receivedAt }) => receivedAt < killedAt - 2000);
    expect(settled.length).toBeGreaterThan(120);
    expect(settled.filter(({ id }) => !logged.has(id))).toEqual([]);
  });

  long("records requests only in its log", { tags: ["long"] }, () => {
    expect(existsSync(join(folder, ".wrangler/state/v3/observability"))).toBe(false);
  });
});

it("npm start opens V8's debugger only with --inspect, on a loopback port that it prints", async () => {
  await stop(running, "SIGINT", true);
  await expectNoProcesses();
  running = await start("--", "--inspect", "--empty");
  const printed = running.lines.join("\n").match(/^Inspector: http:\/\/127\.0\.0\.1:(\d+)\/json /m);
  const { body } = await ask(Number(printed?.[1]), "/json", {});
  expect(JSON.parse(body)).toHaveLength(1);
  const found = listenersOf(processesOfFolder().map((each) => each.split(" ")[0] ?? ""));
  expect(found.map(({ address }) => address)).toEqual(Array.from({ length: 6 }, () => loopback));
});

it("npm start -- --empty creates an account with one key that has every scope, and nothing else", async () => {
  expect(running.lines.at(-3)).toBe(`Demo API key: ${running.demoKey}`);
  const list = async (path: string) => (await api(path, running.demoKey)).body.data;
  expect((await list("/keys")).map(({ name }: { name: string }) => name)).toEqual(["First key"]);
  for (const path of ["/users", "/tasks", "/webhooks"]) expect([path, await list(path)]).toEqual([path, []]);
  expect((await api("/usage", running.demoKey)).body.total_requests.previous).toBe(0);
  const page = await (await fetch(url(), { headers: { "Sec-Fetch-Site": "none" } })).text();
  expect(page.toLowerCase()).not.toContain("sample data");
});

it("A SIGKILL to npm only leaves no process", async () => {
  await stop(running, "SIGKILL", false);
  await expectNoProcesses();
});
