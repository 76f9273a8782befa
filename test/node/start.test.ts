import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { copyOf, freePort, removeProject, run } from "./project.ts";

// `npm start` and its sisters, typed as a stranger would, in an empty folder. One Worker serves all of these tests, in order.

const isLong = inject("isLong");
const long = it.runIf(isLong);

let folder: string;
let port: number;
let running: Started;

interface Started {
  npm: ChildProcess;
  lines: string[];
  demoKey: string;
}

/** Starts as a terminal does: in a process group of its own, which Ctrl-C goes to. */
async function start(...args: string[]): Promise<Started> {
  const npm = spawn("npm", ["start", "--silent", ...args], { cwd: folder, env: { ...process.env, PORT: String(port) }, detached: true });
  let said = "";
  for (const stream of [npm.stdout, npm.stderr]) stream.on("data", (chunk) => (said += chunk));
  for (let waited = 0; !said.includes("\nReady\n"); waited += 50) {
    if (npm.exitCode !== null || waited > 200_000) throw new Error(`npm start did not become ready:\n${said}`);
    await sleep(50);
  }
  const lines = said.trim().split("\n");
  return { npm, lines, demoKey: lines.find((line) => line.startsWith("Demo API key: "))?.slice("Demo API key: ".length) ?? "" };
}

/** Processes whose command line names the folder. */
function processesOfFolder(): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
    try {
      const cwd = readFileSync(`/proc/${pid}/environ`, "utf8");
      return cwd.includes(`PWD=${folder}`) ? [`${pid} ${readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")}`] : [];
    } catch {
      return [];
    }
  });
}

async function stop({ npm }: Started, signal: NodeJS.Signals, toGroup: boolean): Promise<void> {
  const ended = new Promise((resolve) => npm.once("exit", resolve));
  process.kill(toGroup ? -(npm.pid ?? 0) : (npm.pid ?? 0), signal);
  await ended;
  for (let waited = 0; processesOfFolder().length > 0 && waited < 8000; waited += 100) await sleep(100);
}

const url = () => `http://localhost:${port}`;
const api = async (path: string, key: string, init: RequestInit = {}) => {
  const response = await fetch(`${url()}/api/v1${path}`, { ...init, headers: { Authorization: `Bearer ${key}`, ...init.headers } });
  // biome-ignore lint/suspicious/noExplicitAny: what a stranger's client sees has no type
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
};
const command = (name: string, ...args: string[]) => run("npm", ["run", "--silent", name, "--", ...args], { cwd: folder });

beforeAll(async () => {
  folder = copyOf(inject("made").folder);
  port = await freePort();
});

afterAll(async () => {
  if (running?.npm.exitCode === null && running.npm.signalCode === null) await stop(running, "SIGKILL", true);
  removeProject(folder);
});

describe("Local data of an earlier release", () => {
  it("are named by every command, with the way out, which npm start then takes", { tags: ["long"] }, async () => {
    if (isLong) {
      const demoKey = join(folder, ".wrangler/state/demo-key");
      mkdirSync(join(demoKey, ".."), { recursive: true });
      writeFileSync(demoKey, "");
      expect(await run("npm", ["start", "--silent"], { cwd: folder, env: { ...process.env, PORT: String(port) } })).toMatchObject({
        code: 1,
        err: expect.stringMatching(/^The local data are of an earlier release/),
      });
      rmSync(demoKey);
    }
    rmSync(join(folder, ".wrangler/state/migrated"));
    for (const file of globSync(join(folder, ".wrangler/state/v3/d1/*/*.sqlite"))) {
      const database = new DatabaseSync(file);
      database.exec("DROP TABLE IF EXISTS d1_migrations");
      database.close();
    }
    const env = { ...process.env, PORT: String(port) };
    const commands = [
      ["start", "--silent"],
      ["run", "--silent", "key", "--", "--name", "x"],
    ];
    for (const command of isLong ? commands : commands.slice(0, 1)) {
      const { code, err } = await run("npm", command, { cwd: folder, env });
      expect([code, err.trim()]).toEqual([1, expect.stringMatching(/^The local data are of an earlier release.*npm start -- --fresh$/)]);
    }
    // What the local runtime recorded of requests before it was told not to.
    const recorded = join(folder, ".wrangler/state/v3/observability");
    mkdirSync(recorded, { recursive: true });
    writeFileSync(join(recorded, "traces.sqlite"), "GET /api/v1/users");
    running = await start("--", "--fresh");
  });
});

describe("npm start", () => {
  it("prints where everything is, and Ready last", () => {
    expect(running.lines.slice(-5)).toEqual([
      `Overview: ${url()}`,
      `API: ${url()}/api/v1`,
      expect.stringMatching(/^Demo API key: dvo_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}$/),
      expect.stringMatching(/^curl /),
      "Ready",
    ]);
  });

  it("shows its key in no list of processes, and its data, secrets and key to nobody else", () => {
    const processes = processesOfFolder();
    expect(processes.length).toBeGreaterThan(2);
    expect(processes.filter((each) => each.includes(running.demoKey.slice(0, 30)))).toEqual([]);
    const state = join(folder, ".wrangler/state");
    const made = [join(folder, ".dev.vars"), state];
    made.push(...readdirSync(state, { recursive: true, encoding: "utf8" }).map((path) => join(state, path)));
    expect(made.filter((path) => path.endsWith(".sqlite")).length).toBeGreaterThan(3);
    const modes = made.map((path) => [path, (statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077]);
    expect(modes.filter(([, others]) => others !== 0)).toEqual([]);
  });

  it("prints a curl command that works as printed", async () => {
    const { code, out } = await run("sh", ["-c", running.lines.at(-2) ?? ""]);
    expect([code, JSON.parse(out).data.length]).toEqual([0, 25 - 1]);
  });

  it("has seeded sixty days that look like a month against another", async () => {
    const { body } = await api("/usage", running.demoKey);
    expect(body.total_requests.value).toBeGreaterThan(10_000);
    expect(body.total_requests.previous).toBeGreaterThan(10_000);
    expect(body.success_rate.value).toBeGreaterThan(90);
    expect((await api("/tasks?limit=100", running.demoKey)).body.has_more).toBe(true);
  });

  it("runs the main job, and shows it in the log and on the overview within two seconds", async () => {
    const key = running.demoKey;
    const asked = [
      await api("/users", key),
      await api("/tasks", key, { method: "POST", body: '{"title":"From the test"}', headers: { "Content-Type": "application/json" } }),
      await api("/analytics", key),
    ];
    expect(asked.map(({ status }) => status)).toEqual([200, 201, 200]);
    await sleep(1500);
    const ids = (await api("/activity", key)).body.data.map((entry: { id: string }) => entry.id);
    for (const { headers } of asked) expect(ids).toContain(headers.get("X-Request-Id"));
    const page = await (await fetch(url(), { headers: { "Sec-Fetch-Site": "none" } })).text();
    for (const shown of ["/api/v1/users", "/api/v1/tasks", "/api/v1/analytics", "201 Created"]) expect(page).toContain(shown);
  });

  it("serves the style sheet that the page asks for", async () => {
    const response = await fetch(`${url()}/style.css`);
    expect([response.status, response.headers.get("X-Content-Type-Options")]).toEqual([200, "nosniff"]);
  });

  it("lets nobody at its databases past the overview", async () => {
    const explorer = `${url()}/cdn-cgi/explorer`;
    const headers = { "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin" };
    const query = { method: "POST", headers, body: '{"sql":"SELECT 1"}' };
    const asked = [
      await fetch(explorer, { headers }),
      await fetch(`${explorer}/api/d1/database`, { headers }),
      await fetch(`${explorer}/api/d1/database/DB/raw`, query),
    ];
    expect(asked.map(({ status }) => status)).toEqual([404, 404, 404]);
  });

  it("says that a port is taken, and how to choose another", async () => {
    const { code, err } = await run("npm", ["start", "--silent"], { cwd: folder, env: { ...process.env, PORT: String(port) } });
    expect(code).toBe(2);
    expect(err).toContain(`Port ${port} is taken. Choose another: PORT=`);
  });

  long.each([
    [{ PORT: "http" }, [], "PORT must be a number"],
    [{ PORT: "70000" }, [], "PORT must be a number"],
    [{}, ["--", "--frehs"], "Unknown option --frehs"],
  ])("refuses %j %j", { tags: ["long"] }, async (env, args, message) => {
    const { code, err } = await run("npm", ["start", "--silent", ...args], { cwd: folder, env: { ...process.env, ...env } });
    expect([code, err.includes(message)]).toEqual([2, true]);
  });
});

describe("The commands", () => {
  it("receive what a webhook sends, as the README shows, and verify it", async () => {
    const port = await freePort();
    const key = running.demoKey;
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ url: `http://127.0.0.1:${port}/`, event_types: ["task.created"] });
    const webhook = (await api("/webhooks", key, { method: "POST", headers, body })).body;
    const receiver = spawn("npm", ["run", "--silent", "receiver", "--", String(port), webhook.secret], { cwd: folder, detached: true });
    let said = "";
    for (const stream of [receiver.stdout, receiver.stderr]) stream.on("data", (chunk) => (said += chunk));
    const untilSaid = async (text: string) => {
      for (let waited = 0; !said.includes(text) && waited < 20_000; waited += 50) await sleep(50);
      expect(said).toContain(text);
    };
    try {
      await untilSaid("Ready.");
      await api("/tasks", key, { method: "POST", headers, body: '{"title":"Arrive"}' });
      await untilSaid('"title":"Arrive"');
      expect(said).toContain("signature valid");
      const { body: other } = await api(`/webhooks/${webhook.id}/rotate-secret`, key, { method: "POST" });
      expect(other.secret).not.toBe(webhook.secret);
      await api(`/webhooks/${webhook.id}/test`, key, { method: "POST" });
      await untilSaid("webhook.test");
      expect(said).toContain("signature: No matching signature found");
    } finally {
      process.kill(-(receiver.pid ?? 0), "SIGTERM");
      await api(`/webhooks/${webhook.id}`, key, { method: "PATCH", headers, body: '{"status":"disabled"}' });
    }
  });

  it("refuse a receiver's port or secret that is none", async () => {
    for (const given of [["http"], ["70000"], ["4000", "secret"]]) {
      const { code, err } = await command("receiver", ...given);
      expect([code, err.includes("Usage: npm run receiver")]).toEqual([1, true]);
    }
  });

  it("make a key while the Worker runs, and print it alone", async () => {
    const { code, out, err } = await command("key", "--name", "Limited", "--scopes", "tasks:read,users:read", "--limit", "7");
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(/^dvo_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}\n$/);
    const { body } = await api("/me", out.trim());
    expect(body).toMatchObject({ key: { name: "Limited", scopes: ["users:read", "tasks:read"] }, rate_limit: { limit: 7, used: 1 } });
  });

  long("make a further account, and print its id and a key with every scope", { tags: ["long"] }, async () => {
    const { out } = await command("account", "--name", "Second", "--email", "second@example.com");
    const [id, key] = out.trim().split("\n");
    expect((await api("/me", key ?? "")).body.account).toEqual({ id, name: "Second" });
    expect((await api("/users", key ?? "")).body.data).toEqual([]);
    const { out: further } = await command("key", "--name", "Further", "--account", id ?? "");
    expect((await api("/me", further.trim())).body.account.id).toBe(id);
  });

  const refused = [
    ["key", [], 2, "--name takes"],
    ["key", ["--name", "x", "--scopes", "all"], 2, 'no scope "all"'],
    ["key", ["--name", "x", "--limit", "0"], 2, "--limit takes"],
    ["key", ["--name", "x", "--limit", "5001"], 1, "at most 5000"],
    ["key", ["--name", "x", "--account", "acc_none"], 2, "no account acc_none"],
    ["key", ["--nmae", "x"], 2, "Usage:"],
    ["account", ["--name", "x"], 2, "--email takes"],
  ] as const;

  it.each(isLong ? refused : refused.slice(-1))(
    "refuse %s %j with exit code %i and a sentence",
    { tags: ["long"] },
    async (name, args, exitCode, message) => {
      const { code, out, err } = await command(name, ...args);
      expect([code, out]).toEqual([exitCode, ""]);
      expect(err).toContain(message);
      expect(err).not.toMatch(/\n\s+at /);
    },
  );
});

describe("Stopping and starting again", () => {
  it("leaves no process behind on Ctrl-C, and keeps the data, the key and the count of the hour", async () => {
    const { out } = await command("key", "--name", "Counted", "--limit", "5");
    const key = out.trim();
    const untilHourEnds = 3_600_000 - (Date.now() % 3_600_000);
    if (untilHourEnds < 60_000) await sleep(untilHourEnds);
    for (let n = 0; n < 5; n++) expect((await api("/me", key)).status).toBe(200);
    await stop(running, "SIGINT", true);
    expect(processesOfFolder()).toEqual([]);

    const before = running.demoKey;
    const startedAt = Date.now();
    running = await start();
    expect(running.demoKey).toBe(before);
    expect(Date.now() - startedAt).toBeLessThan(30_000);
    expect((await api("/me", key)).status).toBe(429);
    expect((await api("/tasks?q=from%20the%20test", before)).body.data.length).toBe(1);
  });

  long("leaves no process behind when npm alone gets SIGTERM", { tags: ["long"] }, async () => {
    await stop(running, "SIGTERM", false);
    expect(processesOfFolder()).toEqual([]);
    running = await start();
  });

  it("after SIGKILL of everything under load admits no more than the limit in all, and has every entry of what was answered a second before", async () => {
    const { out } = await command("key", "--name", "Killed", "--limit", "500");
    const key = out.trim();
    const untilHourEnds = 3_600_000 - (Date.now() % 3_600_000);
    if (untilHourEnds < 90_000) await sleep(untilHourEnds);
    const admitted: { id: string; answeredAt: number }[] = [];
    let refused = 0;
    const ask = async () => {
      const answer = await fetch(`${url()}/api/v1/me`, { headers: { Authorization: `Bearer ${key}` } }).catch(() => null);
      if (answer?.status === 200) admitted.push({ id: answer.headers.get("X-Request-Id") ?? "", answeredAt: Date.now() });
      if (answer?.status === 429) refused++;
    };
    await Promise.all(Array.from({ length: 100 }, ask));
    const steady: Promise<void>[] = [];
    for (let n = 0; n < 100; n++) {
      steady.push(ask());
      await sleep(20);
    }
    const load = [...steady, ...Array.from({ length: 200 }, ask)];
    await load[120 + Math.floor(Math.random() * 40)];
    const killedAt = Date.now();
    const ended = new Promise((resolve) => running.npm.once("exit", resolve));
    for (const process_ of processesOfFolder()) process.kill(Number(process_.split(" ")[0]), "SIGKILL");
    await ended;
    await Promise.all(load);
    const before = admitted.length;

    running = await start();
    while (refused === 0) await Promise.all(Array.from({ length: 40 }, ask));
    expect(admitted.length).toBeLessThanOrEqual(500);
    expect(admitted.length).toBeGreaterThanOrEqual(500 - 63 - (400 - before));
    const logged = new Set<string>();
    for (let path: string | null = "/activity?limit=100&path=/api/v1/me"; path; ) {
      const { body } = await api(path, running.demoKey);
      for (const entry of body.data) logged.add(entry.id);
      path = body.has_more && logged.size < 1000 ? `/activity?limit=100&path=/api/v1/me&cursor=${body.next_cursor}` : null;
    }
    const settled = admitted.filter(({ answeredAt }) => answeredAt < killedAt - 1000);
    expect(settled.length).toBeGreaterThan(120);
    expect(settled.filter(({ id }) => !logged.has(id))).toEqual([]);
  });

  long("leaves no record of requests on disk but the log, and removes what an earlier start has left", { tags: ["long"] }, async () => {
    const recorded = join(folder, ".wrangler/state/v3/observability");
    expect(existsSync(recorded)).toBe(false);
    mkdirSync(recorded, { recursive: true });
    writeFileSync(join(recorded, "traces.sqlite"), "GET /api/v1/users");
    await stop(running, "SIGINT", true);
    running = await start();
    for (let n = 0; n < 5; n++) await api("/me", running.demoKey);
    expect(existsSync(recorded)).toBe(false);
  });

  it("leaves no process behind when npm alone gets SIGKILL", async () => {
    await stop(running, "SIGKILL", false);
    expect(processesOfFolder()).toEqual([]);
  });
});
