/** @module-tag process */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
import { startReceiver } from "../../scripts/receiving.ts";
import { startIn } from "./demo.ts";
import { copyProject, freePort, removeProject, run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// Makes a backup of a running Worker, builds another Worker from it in an empty clone, and compares the two.

const long = it.runIf(inject("isLong"));
/** An export of D1 does not distinguish line breaks from the characters that it writes for them. */
const oddText = "Line one\n\\n is not a line break\r\n\\r; C:\\new\\reports";
const longOptions = { tags: ["long"], timeout: 600_000 };

describe("A backup", () => {
  let original: RunningWorker;
  let folder: string;
  let clone: string;
  let receiver: Awaited<ReturnType<typeof startReceiver>>;
  let stopCopy: () => Promise<void> = async () => removeProject(clone);

  beforeAll(async () => {
    if (!inject("isLong")) return;
    [original, receiver] = await Promise.all([startWorker(), startReceiver(0)]);
    folder = join(mkdtempSync(join(tmpdir(), "backup-")), "of-today");
    clone = copyProject();
  });

  afterAll(async () => {
    await stopCopy();
    await Promise.all([original?.stop(), receiver?.stop()]);
    if (folder) rmSync(join(folder, ".."), { recursive: true, force: true });
  });

  const operator = (in_: string, port: number, ...args: string[]) =>
    run(process.execPath, ["scripts/operator.ts", ...args], {
      cwd: in_,
      env: {
        ...process.env,
        PATH: `${join(in_, "node_modules/.bin")}:${process.env.PATH}`,
        PORT: String(port),
        OPERATOR_TOKEN: "",
        OPERATOR_REMOTE: "",
      },
    });
  const restore = () =>
    run(process.execPath, ["scripts/restore.ts", "--from", folder], {
      cwd: clone,
      env: { ...process.env, PATH: `${join(clone, "node_modules/.bin")}:${process.env.PATH}` },
    });
  const ask = async (port: number, key: string, path: string) => {
    const response = await fetch(`http://localhost:${port}/api/v1${path}`, { headers: { Authorization: `Bearer ${key}` } });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  long("contains the databases, and goes on where it was interrupted", longOptions, async () => {
    // Rows that refer to others, texts with semicolons, and a segment of the log that is too long for one statement of D1.
    const flooding = await original.api("POST", "/keys", { name: "Flooding; with a semicolon", scopes: ["users:read", "tasks:write"] });
    for (let sent = 0; sent < 4000; sent += 50)
      await Promise.all(Array.from({ length: 50 }, () => ask(original.port, flooding.secret_key, `/users/${randomUUID()}`)));
    const user = await original.api("POST", "/users", { name: "Ada; Ltd", email: "ada@example.com" });
    await original.api("POST", "/tasks", { title: "It's; done", description: oddText, assignee_id: user.id });
    const { account } = await original.api("GET", "/me");
    const plan = await operator(original.folder, original.port, "plans", "make", "--name", "Team; of two");
    expect((await operator(original.folder, original.port, "accounts", "plan", account.id, plan.out.trim())).code).toBe(0);
    // A delivery whose next attempt is due, and jobs that last ran an hour ago.
    const webhook = await original.api("POST", "/webhooks", { url: `${receiver.url}/fail`, event_types: ["task.created"] });
    await original.api("POST", "/tasks", { title: "Sent once" });
    await vi.waitFor(() => expect(receiver.received).toHaveLength(2), { timeout: 60_000, interval: 50 });
    await fetch(`http://localhost:${original.port}/cdn-cgi/local/scheduled`);
    await original.sql("UPDATE jobs SET ran_at = ran_at - 3600000; UPDATE deliveries SET next_attempt_at = 0, reserved_until = 0");
    const revoked = await original.api("POST", "/keys", { name: "Revoked", scopes: ["tasks:read"] });
    const limited = await original.api("POST", "/keys", { name: "Limited", hourly_limit: 3, scopes: ["tasks:read"] });
    for (let request = 0; request < 4; request++) await ask(original.port, limited.secret_key, "/tasks");
    await ask(original.port, revoked.secret_key, "/tasks");
    await original.api("DELETE", `/keys/${revoked.id}`);
    const first = await operator(original.folder, original.port, "backup", "--to", folder);
    expect([first.code, first.code === 0 ? "" : first.err]).toEqual([0, ""]);
    writeFileSync(join(original.folder, "keys.json"), JSON.stringify({ revoked, limited, webhook }));
    expect(readFileSync(join(folder, "ACTIVITY_0.sql"), "utf8")).toContain("INSERT INTO restored_parts");
    const manifestFile = join(folder, "manifest.json");
    const manifest = JSON.parse(readFileSync(manifestFile, "utf8"));
    expect(manifest.without_latest_entries).toEqual([]);
    for (const file of ["DB.sql", "ACTIVITY_0.sql", "manifest.json"]) expect(statSync(join(folder, file)).mode & 0o077).toBe(0);
    expect(manifest.databases.map(({ binding }: { binding: string }) => binding)).toEqual(["DB", "ACTIVITY_0"]);
    const again = await operator(original.folder, original.port, "backup", "--to", folder);
    expect([again.code, again.err]).toEqual([4, expect.stringContaining("has a complete backup")]);
    // The second database is missing, as after an interruption.
    writeFileSync(manifestFile, JSON.stringify({ ...manifest, finished_at: null, databases: manifest.databases.slice(0, 1) }));
    rmSync(join(folder, "ACTIVITY_0.sql"));
    expect((await restore()).err).toContain("The backup is not complete");
    const continued = await operator(original.folder, original.port, "backup", "--to", folder);
    expect([continued.code, continued.err]).toEqual([0, expect.stringContaining("developer-overview is there already.")]);
    expect(existsSync(join(folder, "ACTIVITY_0.sql"))).toBe(true);
    // Six accounts were erased after the first try, so the copy has only one.
    writeFileSync(manifestFile, JSON.stringify({ ...manifest, accounts: 7, finished_at: null, databases: [] }));
    expect((await operator(original.folder, original.port, "backup", "--to", folder)).code).toBe(0);
    expect(JSON.parse(readFileSync(manifestFile, "utf8")).accounts).toBe(1);
    // From here on, only the copy could send.
    await original.api("DELETE", `/webhooks/${webhook.id}`);
  });

  long("that was being restored when the restore was killed is restored again, and is not started before", longOptions, async () => {
    const killed = spawn(process.execPath, ["scripts/restore.ts", "--from", folder], {
      cwd: clone,
      detached: true,
      env: { ...process.env, PATH: `${join(clone, "node_modules/.bin")}:${process.env.PATH}` },
    });
    await vi.waitUntil(() => existsSync(join(clone, ".wrangler/state/v3")), { timeout: 120_000, interval: 20 });
    const ended = new Promise((resolve) => killed.once("exit", resolve));
    // With all processes that it has started, as when a machine loses power.
    process.kill(-(killed.pid ?? 0), "SIGKILL");
    await ended;
    const started = await run(process.execPath, ["scripts/start.ts"], {
      cwd: clone,
      env: { ...process.env, PORT: String(await freePort()) },
    });
    expect([started.code, started.err]).toEqual([4, expect.stringContaining("a restore was interrupted")]);
  });

  long("is refused by restore if a file is damaged, or lacks a database", longOptions, async () => {
    const restoreWith = async (name: string, change: (text: string) => string) => {
      const file = join(folder, name);
      const before = readFileSync(file, "utf8");
      writeFileSync(file, change(before));
      const { code, err } = await restore();
      writeFileSync(file, before);
      return [code, err];
    };
    expect(await restoreWith("ACTIVITY_0.sql", (text) => `${text}\n-- changed`)).toEqual([
      4,
      expect.stringContaining("ACTIVITY_0.sql is missing or damaged"),
    ]);
    expect(await restoreWith("manifest.json", (text) => text.slice(0, 100))).toEqual([
      4,
      expect.stringContaining("manifest.json is damaged"),
    ]);
    const onlyMain = (text: string) => {
      const manifest = JSON.parse(text);
      return JSON.stringify({ ...manifest, databases: manifest.databases.slice(0, 1) });
    };
    expect(await restoreWith("manifest.json", onlyMain)).toEqual([
      4,
      expect.stringContaining("The backup does not have developer-overview-"),
    ]);
  });

  long("becomes a working Worker with the same counts, figures and keys", longOptions, async () => {
    const { revoked, limited, webhook } = JSON.parse(readFileSync(join(original.folder, "keys.json"), "utf8"));
    writeFileSync(join(clone, ".dev.vars"), readFileSync(join(original.folder, ".dev.vars")), { mode: 0o600 });
    const { code, out, err } = await restore();
    expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
    expect(out).toMatch(/: 1 of 1 accounts, 3 of 3 live keys\./);
    expect((await restore()).err).toContain("There are local data already");
    const attempts = receiver.received.length;
    const copy = await startIn(clone, "--sign-in");
    stopCopy = copy.stop;
    const { port } = copy;
    const reconciled = await operator(clone, port, "guards", "reconcile");
    expect([reconciled.code, reconciled.code === 0 ? "" : reconciled.err]).toEqual([0, ""]);
    // Webhooks: the copy sends nothing to receivers of customers.
    const disabled = await ask(port, original.key, `/webhooks/${webhook.id}`);
    expect(disabled.body).toMatchObject({ status: "disabled", disabled_reason: expect.stringContaining("restored from a backup") });
    await vi.waitFor(async () => {
      const { body } = await ask(port, original.key, `/webhooks/${webhook.id}/deliveries`);
      expect((body.data as { status: string }[]).map(({ status }) => status)).toEqual(["held"]);
    }, 10_000);
    expect(receiver.received).toHaveLength(attempts);
    const { body: tasks } = await ask(port, original.key, "/tasks?limit=100");
    expect((tasks.data as { title: string; description: string }[]).find(({ title }) => title === "It's; done")?.description).toBe(oddText);
    // Keys: the same rows, and the same answers.
    const shown = async (at: number) =>
      ((await ask(at, original.key, "/keys?limit=100")).body.data as Record<string, unknown>[]).map(
        ({ id, name, status, limits, scopes, last4 }) => ({
          id,
          name,
          status,
          limits,
          scopes,
          last4,
        }),
      );
    expect(await shown(port)).toEqual(await shown(original.port));
    expect((await ask(port, revoked.secret_key, "/tasks")).body.code).toBe("revoked_key");
    const usageOf = async (at: number) => {
      const { body } = await ask(at, original.key, `/usage?window=24h&key_id=${limited.id}`);
      return [body.total_requests, body.success_rate, body.by_class];
    };
    const used = await usageOf(original.port);
    expect(JSON.stringify(used)).toContain("4");
    expect(await usageOf(port)).toEqual(used);
    expect((await ask(port, limited.secret_key, "/tasks")).status).toBe(200);
    // Figures: the log and the usage of the requests before the backup.
    const before = `${JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")).started_at}`;
    const log = async (at: number) =>
      ((await ask(at, original.key, `/activity?limit=100&to=${before}`)).body.data as { id: string; status: number }[]).map(
        ({ id, status }) => [id, status],
      );
    const logged = await log(original.port);
    expect(logged.length).toBeGreaterThanOrEqual(7);
    expect(logged.filter(([, status]) => status === 429)).toHaveLength(1);
    expect(await log(port)).toEqual(logged);
  });
});
