/** @module-tag process */
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { DuckDBInstance } from "@duckdb/node-api";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
import { keyIdIn } from "../../scripts/operator/keys.ts";
import { replacementFor, rotated } from "../../scripts/operator/secrets.ts";
import { listen } from "./listen.ts";
import { run } from "./project.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// Runs the commands of `npm run operator` against a local Worker, and follows the runbooks.

let worker: RunningWorker;
let account: string;

/**
 * Runs an operator command. By default, starts the script directly, because `npm run` would double the time. One test sets `command` to
 * `npm run`.
 */
const operator = (args: string[], env: Record<string, string> = {}, command = ["node", "scripts/operator.ts"]) => {
  const [program = "", ...firstArgs] = command;
  return run(program, [...firstArgs, ...args], {
    cwd: worker.folder,
    // These values override variables that the shell may have set.
    env: { ...process.env, OPERATOR_REMOTE: "", OPERATOR_TOKEN: "", PORT: String(worker.port), ...env },
  });
};

/**
 * Runs an operator command that must succeed. Returns the output of the command. If `args` contains `--json`, the output is parsed as JSON.
 */
async function succeedWith(...args: string[]) {
  const { code, out, err } = await operator(args);
  expect([code, code === 0 ? "" : err], args.join(" ")).toEqual([0, ""]);
  return args.includes("--json") ? JSON.parse(out) : out.trim();
}

/** Creates a key for the account. */
const succeedWithNewKey = async (): Promise<{ key: string }> => {
  const { secret_key: key } = await worker.api("POST", "/keys", { name: "Export" });
  return { key };
};

beforeAll(async () => {
  worker = await startWorker({ log: true });
  account = (await worker.api("GET", "/me")).account.id;
});

afterAll(() => worker?.stop());

/** Long tests run many commands, or restart the Worker. */
const isLong = inject("isLong");
const long = it.runIf(isLong);

/** Each command starts a process, so the short form of the test runs only the last three commands. */
const invalidCommands = [
  [[], "Name what to work on"],
  [["accunts", "list"], 'no "accunts"'],
  [["accounts"], "Name what to do with accounts"],
  [["accounts", "delete", "x"], 'no "accounts delete"'],
  [["accounts", "suspend"], "It is called: accounts suspend ID"],
  [["accounts", "list", "--jsn"], "--jsn"],
  [["accounts", "ceiling", "acc_1", "many"], "whole number"],
  [["accounts", "ceiling", "acc_1", "0"], "at least 1"],
  [["accounts", "make", "--name", "x"], "--email is missing"],
  [["accounts", "find"], "Add --external-id, --email or --text"],
  [["accounts", "find", "--email", "", "--text", "acme"], "A filter is empty"],
  [["accounts", "max-keys", "acc_1", "many"], "whole number"],
  [["accounts", "list", "--remote", "http://api.example.com"], "--remote and OPERATOR_REMOTE take https://"],
  [["accounts", "list", "--remote", "api"], "--remote and OPERATOR_REMOTE take the address"],
  [["keys", "revoke", "dvo_short"], "KEY takes the id of a key"],
  [["secrets", "rotate", "key-signing", "--env", "production"], "api.public_origin is not set in overview.toml"],
  [["accounts", "list", "--remote", "https://api.example.com"], "There is no token for https://api.example.com"],
  [["secrets", "rotate", "keys"], "There are two to rotate"],
] as const;

describe("The secret that replaces the older one", () => {
  const signing = rotated["key-signing"] as (typeof rotated)[string];
  const use = (name: string, used: number, is_there = true, is_newest = false) => ({ name, used, is_there, is_newest });
  const places = (first: string[], second: string[]) => ({ KEY_SIGNING_SECRETS: first, KEY_SIGNING_SECRETS_2: second });

  it("has the next name, and takes the place of the older one", () => {
    const uses = [use("b", 3, true, true), use("a", 0)];
    expect(replacementFor(signing, uses, places(["a"], ["b"]), 0)).toEqual({ place: "KEY_SIGNING_SECRETS", names: ["a"], name: "c" });
  });

  it("is not made if keys need the older one, or if the Worker has lost one", () => {
    const needed = [use("b", 3, true, true), use("a", 2)];
    expect(() => replacementFor(signing, needed, places(["a"], ["b"]), 1)).toThrow("is still needed by 3 keys");
    const lost = [use("c", 3, true, true), use("a", 0), use("b", 1, false)];
    expect(() => replacementFor(signing, lost, places(["a"], ["c"]), 0)).toThrow("has lost the secret b, which 1 key still needs");
    // The next name could be that of the lost one, even if nothing needs it now.
    const empty = { ...places(["a"], []), WEBHOOK_ENCRYPTION_SECRETS: ["a"] };
    expect(() => replacementFor(signing, [use("a", 3, true, true)], empty, 0)).toThrow("no readable secret in KEY_SIGNING_SECRETS_2");
  });
});

describe("npm run operator", () => {
  it("prints its usage with --help", async () => {
    const help = await operator(["--help"], {}, ["npm", "run", "--silent", "operator", "--"]);
    expect([help.code, help.err]).toEqual([0, ""]);
    for (const form of [
      "accounts erase ID --yes",
      "guards reconcile",
      "secrets reencrypt",
      "deliveries drain",
      "--remote URL",
      "3 unreachable",
    ])
      expect(help.out).toContain(form);
    expect((await operator(["accounts", "--help"])).out).not.toContain("guards reconcile");
  });

  it.each(isLong ? invalidCommands : invalidCommands.slice(-3))(
    "exits with 2 and an explanation for the arguments %j",
    { tags: ["long"] },
    async (args, message) => {
      const { code, out, err } = await operator([...args]);
      expect([code, out, err.includes(message), /\n\s+at /.test(err)]).toEqual([2, "", true, false]);
    },
  );

  it("exits with 1 if a command fails, 3 if the Worker is unreachable, and 4 if access is denied", async () => {
    expect(await operator(["accounts", "suspend", "acc_none"])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/\nThere is no such account\.\n$/),
    });
    expect(await operator(["accounts", "list"], { PORT: "59999" })).toMatchObject({
      code: 3,
      err: expect.stringContaining("Nothing responds at"),
    });
    expect(await operator(["accounts", "list"], { OPERATOR_TOKEN: "dvop_wrong" })).toMatchObject({
      code: 4,
      err: expect.stringContaining("refuses the token that is in the variable OPERATOR_TOKEN"),
    });
    // A server that is not the Worker.
    const server = createServer((request, response) => {
      response.writeHead(request.url?.includes("accounts") ? 302 : 502, { Location: "https://login.example.com" }).end();
    });
    const PORT = String(await listen(server));
    expect((await operator(["accounts", "list"], { PORT })).code).toBe(4);
    expect((await operator(["secrets", "list"], { PORT })).code).toBe(3);
    server.close();
  });

  it("prints the address of the Worker, which is --remote, OPERATOR_REMOTE or the local Worker", async () => {
    const here = `http://localhost:${worker.port}`;
    const token = parseEnv(readFileSync(join(worker.folder, ".dev.vars"), "utf8")).OPERATOR_TOKEN ?? "";
    const backlog = ["deliveries", "backlog", "--json"];
    const local = await operator(backlog);
    expect([local.code, local.err, Object.keys(JSON.parse(local.out))]).toEqual([
      0,
      `Worker: ${here}, on this machine\n`,
      expect.arrayContaining(["due"]),
    ]);
    const env = { OPERATOR_REMOTE: here, OPERATOR_TOKEN: token };
    expect(await operator(backlog, { ...env, PORT: "59999" })).toMatchObject({ code: 0, err: `Worker: ${here}\n` });
    // The option --remote takes precedence over OPERATOR_REMOTE. The command prints the address even if the address is unreachable.
    const unreachable = await operator([...backlog, "--remote", "http://localhost:59999"], env);
    expect([unreachable.code, unreachable.err.split("\n")[0]]).toEqual([3, "Worker: http://localhost:59999"]);
  });

  it("accepts a key as its id, as its public part or as the secret key", async () => {
    const created = await worker.api("POST", "/keys", { name: "Found", scopes: ["tasks:read"] });
    const publicPart = created.id.slice("key_".length);
    for (const valid of [created.id, `dvo_${publicPart}`, `dvo_${publicPart}_...`, `dvo_${publicPart}…`, created.secret_key])
      expect(keyIdIn(valid)).toBe(created.id);
    for (const invalid of ["", publicPart, `dvo_${publicPart}x`, `key_${publicPart.slice(1)}`, `tsk_${publicPart}`])
      expect(keyIdIn(invalid)).toBeNull();
    await succeedWith("keys", "disable", created.secret_key);
    expect(await worker.me(created.secret_key)).toBe("disabled_key");
    await succeedWith("keys", "revoke", `dvo_${publicPart}`);
    expect(await worker.me(created.secret_key)).toBe("revoked_key");
    for (const target of [created.id, `dvo_${publicPart}`, created.secret_key])
      expect(await succeedWith("audit", "list", "--target", target)).toContain(created.id);
  });

  it("creates accounts and keys, and prints tables or JSON", async () => {
    const created = (await succeedWith("accounts", "make", "--name", "Acme Ltd", "--email", "ops@acme.dev")) as string;
    expect(created).toMatch(/^acc_\w+\nhttp:\/\/localhost:\d+\/setup#[\w-]{43}$/);
    const [id = ""] = created.split("\n");
    const key = (await succeedWith("keys", "make", id, "--name", "CI", "--scopes", "tasks:read", "--limit", "9")) as string;
    expect(await worker.me(key)).toBe(200);
    const { data } = await succeedWith("accounts", "list", "--json");
    expect(data.find((each: { id: string }) => each.id === id)).toMatchObject({ name: "Acme Ltd", status: "active", is_claimed: false });
    expect(await succeedWith("accounts", "list")).toMatch(/^ID +STATUS +LIMIT CEILING/);
    const keys = await succeedWith("keys", "list", id, "--json");
    await succeedWith("keys", "disable", keys.data[0].id);
    expect(await worker.me(key)).toBe("disabled_key");
    await succeedWith("keys", "enable", keys.data[0].id);
    await succeedWith("keys", "revoke", keys.data[0].id);
    expect(await worker.me(key)).toBe("revoked_key");
  });

  long(
    "makes plans, gives them to accounts and changes them, and sets limits that the keys of an account share",
    { tags: ["long"] },
    async () => {
      const plan = (await succeedWith(
        "plans",
        "make",
        "--name",
        "Team",
        "--account-limits",
        "hour=80000",
        "--key-limits",
        "day=90000",
      )) as string;
      expect(plan).toMatch(/^plan_\w+$/);
      expect(await succeedWith("accounts", "plan", account, plan)).toMatch(
        /Limits of all keys together: 80000 per hour\. Keys with lower limits now: key_/,
      );
      expect(await succeedWith("accounts", "limits", account, "hour=70000,month=900000")).toContain("70000 per hour, 900000 per month");
      expect((await worker.api("GET", "/account/limits")).policies[0]).toMatchObject({ name: "account-hour", limit: 70_000 });
      const removed = await operator(["accounts", "limits", account, "none"]);
      expect([removed.out, removed.err]).toEqual([
        expect.stringContaining("80000 per hour"),
        expect.stringContaining(`To undo: operator accounts limits ${account} hour=70000,month=900000`),
      ]);
      expect(await succeedWith("plans", "change", plan, "--account-limits", "hour=60000")).toContain("for 1 account");
      expect(await succeedWith("plans", "list")).toMatch(/Team +60000 per hour +90000 per day/);
      expect((await worker.api("GET", "/account/limits")).policies[0].limit).toBe(60_000);
      await succeedWith("accounts", "plan", account, "none");
      expect(await succeedWith("plans", "delete", plan)).toBe("Deleted.");
    },
  );

  long("suspends and resumes an account, changes its limits, and shows its storage and deliveries", { tags: ["long"] }, async () => {
    await succeedWith("accounts", "suspend", account);
    expect(await worker.me(worker.key)).toBe("account_suspended");
    await succeedWith("accounts", "resume", account);
    expect(await worker.me(worker.key)).toBe(200);
    const lowered = await operator(["accounts", "ceiling", account, "4000"]);
    expect([lowered.out, lowered.err]).toEqual([
      expect.stringMatching(/The limits of these keys changed: key_/),
      expect.stringMatching(
        new RegExp(`To undo:\\n {2}operator accounts ceiling ${account} 5000\\n(?: {2}operator keys limits key_\\w{16} hour=5000\\S*\\n)*`),
      ),
    ]);
    expect((await worker.api("GET", "/rate-limit")).policies[0].limit).toBe(4000);
    await succeedWith("accounts", "retention-days", account, "14");
    await succeedWith("accounts", "retention-days", account, "default");
    expect(await succeedWith("accounts", "max-keys", account, "200")).toBe("The account may have 200 live keys.");
    expect(await succeedWith("accounts", "on-unavailable", account, "known")).toBe("While a guard cannot be reached: known.");
    await succeedWith("accounts", "on-unavailable", account, "deny");
    expect((await succeedWith("accounts", "storage", account, "--json")).tasks.most).toBe(100_000);
    expect(await succeedWith("accounts", "storage-quota", account, "512")).toBe("It may store 512 MiB.");
    expect((await succeedWith("accounts", "storage", account, "--json")).bytes.most).toBe(512 * 1024 * 1024);
    expect(await succeedWith("accounts", "storage-quota", account, "default")).toBe("It may store 256 MiB.");
    expect(await succeedWith("deliveries", "backlog")).toContain("pending");
    expect(await succeedWith("deliveries", "drain", "--seconds", "5")).toBe("Nothing is due.");
    expect((await succeedWith("audit", "list", "--json")).data.length).toBeGreaterThan(5);
    expect(await operator(["audit", "list", "--account", ""])).toMatchObject({
      code: 2,
      err: expect.stringContaining("A filter is empty"),
    });
  });

  it("exports a log as lines of JSON and as a Parquet file, and DuckDB counts the same requests as the API", async () => {
    const { key } = await succeedWithNewKey();
    const headers = { Authorization: `Bearer ${key}` };
    const send = (path: string) => fetch(`http://localhost:${worker.port}/api/v1${path}`, { headers });
    for (let n = 0; n < 150; n++) await send(n % 10 === 0 ? "/tasks/tsk_none" : "/me");
    const to = new Date().toISOString();
    const { total_requests, by_class } = await vi.waitUntil(
      async () => {
        const usage = await worker.api("GET", `/usage?window=24h&key_id=${keyIdIn(key)}`);
        return usage.total_requests.value >= 150 && usage;
      },
      { timeout: 5000, interval: 100 },
    );
    const lines = (await succeedWith("log", "export", account, "--format", "ndjson", "--to", to))
      .split("\n")
      .map((line: string) => JSON.parse(line));
    const file = join(worker.folder, "requests.parquet");
    const parquet = `node scripts/operator.ts log export ${account} --format parquet --to ${to} > ${file}`;
    const env = { ...process.env, OPERATOR_REMOTE: "", OPERATOR_TOKEN: "", PORT: String(worker.port) };
    const exported = await run("sh", ["-c", parquet], { cwd: worker.folder, env });
    expect([exported.code, exported.err]).toEqual([0, expect.stringContaining(`${lines.length} requests.`)]);
    const database = await (await DuckDBInstance.create()).connect();
    const query = async (sql: string) => (await database.runAndReadAll(sql.replace("FILE", `'${file}'`))).getRowObjectsJson();
    const [all] = await query("SELECT count(*) AS rows, sum(count) AS requests, sum(duration_ms) AS ms FROM FILE");
    const sum = (of: (line: { count: number; duration_ms: number }) => number) =>
      lines.reduce((total: number, line: never) => total + of(line), 0);
    expect([all?.rows, all?.requests, all?.ms].map(Number)).toEqual([
      lines.length,
      sum(({ count }) => count),
      sum((line) => line.duration_ms),
    ]);
    const [ofKey] = await query(
      `SELECT sum(count) AS requests, sum(count) FILTER (status = 404) AS failed, count(DISTINCT id) AS ids FROM FILE WHERE key_id = '${keyIdIn(key)}'`,
    );
    expect([ofKey?.requests, ofKey?.failed].map(Number)).toEqual([total_requests.value, by_class["4xx"]]);
    expect(Number(ofKey?.ids)).toBe(150);
    expect(await operator(["log", "export", account, "--format", "csv"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("ndjson or parquet"),
    });
  });

  it("exports an account as lines of JSON, and succeeds if a pipe closes early", async () => {
    for (let n = 0; n < 30; n++) await worker.api("POST", "/tasks", { title: `Task ${n}` });
    const { code, out, err } = await operator(["accounts", "export", account]);
    const lines = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect([code, err]).toEqual([0, `Worker: http://localhost:${worker.port}, on this machine\n${lines.length - 1} lines.\n`]);
    expect(lines.filter(({ type }) => type === "task").length).toBe(30);
    expect(lines.at(-1)).toEqual({ type: "end", lines: lines.length - 1 });
    const piped = await run("sh", ["-c", `npm run --silent operator -- accounts export ${account} | head -1`], {
      cwd: worker.folder,
      env: { ...process.env, PORT: String(worker.port) },
    });
    expect([piped.code, piped.err.includes("EPIPE"), JSON.parse(piped.out).type]).toEqual([0, false, "account"]);
  });

  long("erases an account only with --yes, and reports what it erased and what Cloudflare keeps", { tags: ["long"] }, async () => {
    const [id = ""] = ((await succeedWith("accounts", "make", "--name", "Gone", "--email", "gone@example.com")) as string).split("\n");
    const key = (await succeedWith("keys", "make", id, "--name", "Gone")) as string;
    expect(await worker.me(key)).toBe(200);
    const unconfirmed = await operator(["accounts", "erase", id]);
    expect([unconfirmed.code, unconfirmed.err.includes("--yes"), await worker.me(key)]).toEqual([2, true, 200]);
    const report = (await succeedWith("accounts", "erase", id, "--yes")) as string;
    expect(report).toMatch(/ERASED +COUNT/);
    expect(report).toContain("Time Travel");
    expect(await worker.me(key)).toBe("invalid_key");
    expect((await succeedWith("accounts", "erase", id, "--yes", "--json")).status).toBe("erased");
    expect((await operator(["accounts", "resume", id])).code).toBe(4);
  });
});

describe("A runbook", () => {
  long("rotates the secrets of the Worker, and all keys and webhooks still work", { tags: ["long"] }, async () => {
    const received: { headers: Record<string, string>; body: string }[] = [];
    const receiver = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      received.push({ headers: request.headers as Record<string, string>, body });
      response.end();
    });
    const url = `http://127.0.0.1:${await listen(receiver)}/`;
    const webhook = await worker.api("POST", "/webhooks", { url, event_types: ["task.created"] });

    for (const kind of ["key-signing", "webhook-encryption"]) await succeedWith("secrets", "rotate", kind);
    expect(await operator(["secrets", "rotate", "key-signing"])).toMatchObject({ code: 4, err: expect.stringContaining("Start it again") });
    await worker.restart();
    expect(await worker.me(worker.key)).toBe(200);
    const before = await succeedWith("secrets", "list", "--json");
    expect(before.signing.map(({ name, is_newest }: { name: string; is_newest: boolean }) => [name, is_newest])).toEqual([
      ["c", true],
      ["b", false],
    ]);
    // Existing keys and webhooks still need the older secrets.
    expect(await operator(["secrets", "rotate", "key-signing"])).toMatchObject({
      code: 4,
      err: expect.stringContaining("still needed by"),
    });
    expect(await operator(["secrets", "rotate", "webhook-encryption"])).toMatchObject({
      code: 4,
      err: expect.stringContaining("secrets reencrypt"),
    });
    expect(await succeedWith("secrets", "reencrypt")).toBe("Encrypted with the newest secret: 1 webhook.");
    await succeedWith("secrets", "rotate", "webhook-encryption");
    await worker.restart();
    await worker.api("POST", "/tasks", { title: "After the rotation" });
    const { headers, body } = await vi.waitUntil(() => received[0], { timeout: 8000, interval: 50 });
    expect(new Webhook(webhook.secret).verify(body, headers)).toMatchObject({ type: "task.created" });
    receiver.close();

    // The secret of the webhook is lost. Nothing gives another one its name.
    const variables = join(worker.folder, ".dev.vars");
    const complete = readFileSync(variables, "utf8");
    const { places } = await succeedWith("secrets", "list", "--json");
    const place = Object.keys(places).find((each) => each.startsWith("WEBHOOK_ENCRYPTION") && places[each].includes("c"));
    await worker.restart(() => writeFileSync(variables, complete.replace(new RegExp(`^${place}=.*$`, "m"), `${place}="unreadable"`)));
    const listed = await succeedWith("secrets", "list");
    expect(listed).toContain(`${place} has no readable secret`);
    expect(listed).toContain("These need a secret that the Worker has lost:");
    expect(listed).toContain(`  ${webhook.id} of acc_`);
    expect(listed).toMatch(/WEBHOOK_ENCRYPTION_SECRETS +c +MISSING +1 webhook/);
    expect(await succeedWith("secrets", "reencrypt")).toContain("1 webhook could not be read, because the Worker has lost the secret");
    for (const kind of ["key-signing", "webhook-encryption"])
      expect(await operator(["secrets", "rotate", kind])).toMatchObject({ code: 4, err: expect.stringContaining("no readable secret in") });
    expect(await succeedWith("status")).toContain(`NOW    SecretMissing: The Worker has no readable secret in ${place}.`);
    expect(await worker.me(worker.key)).toBe(200);
    await worker.restart(() => writeFileSync(variables, complete));
    expect(await succeedWith("secrets", "list")).not.toContain("lost");
  });

  it("finds the account of a customer by the id in the team's own system, and moves the id to another account", async () => {
    const make = async (name: string, ...more: string[]) =>
      ((await succeedWith("accounts", "make", "--name", name, "--email", "ops@acme.dev", ...more)) as string).split("\n")[0] ?? "";
    const [former, next] = [await make("Acme", "--external-id", "cus_4711"), await make("Acme Holding")];
    const found = async (...by: string[]) =>
      (await succeedWith("accounts", "find", ...by, "--json")).data.map(({ id }: { id: string }) => id);
    expect(await found("--external-id", "cus_4711")).toEqual([former]);
    expect(await found("--text", "acme hold")).toEqual([next]);
    const [mueller, oel] = [await make("Müller GmbH"), await make("ÖLWERKE")];
    for (const text of ["müller", "MÜLLER", "Müller gmbh"]) expect(await found("--text", text)).toEqual([mueller]);
    for (const text of ["ölwerke", "Ölwerke"]) expect(await found("--text", text)).toEqual([oel]);
    expect(await found("--email", "OPS@acme.dev")).toEqual(expect.arrayContaining([former, next]));
    expect(await operator(["accounts", "external-id", next, "cus_4711"])).toMatchObject({
      code: 4,
      err: expect.stringContaining("Another account has this external id"),
    });
    expect(await succeedWith("accounts", "external-id", former, "none")).toBe("External id: none.");
    expect(await succeedWith("accounts", "external-id", next, "cus_4711")).toBe("External id: cus_4711.");
    expect(await succeedWith("accounts", "find", "--external-id", "cus_4711")).toContain(next);
  });
});

describe("A secret", () => {
  const at = (path: string) => `http://localhost:${worker.port}${path}`;

  it("appears in no response, log, export, audit log or database, wherever a client put it", async () => {
    const vars = parseEnv(readFileSync(join(worker.folder, ".dev.vars"), "utf8"));
    const token = vars.OPERATOR_TOKEN ?? "";
    const { secret } = await worker.api("POST", "/webhooks", { url: "http://127.0.0.1:9/", event_types: ["task.created"] });
    const link = (await succeedWith("owners", "link", account)) as string;
    const form = { Origin: at("").replace(/\/$/, ""), "Content-Type": "application/x-www-form-urlencoded" };
    const opened = await fetch(at("/operator/session"), { method: "POST", redirect: "manual", headers: form, body: `token=${token}` });
    const cookie = /^operator=[^;]+/.exec(opened.headers.get("Set-Cookie") ?? "")?.[0] ?? "";
    const session = /=([\w-]+)/.exec(cookie)?.[1] ?? "";
    const named = Object.entries(vars).filter(([name]) => /_SECRETS(_2)?$/.test(name));
    const secrets = [
      worker.key.slice(21),
      token,
      secret,
      link.split("#")[1] ?? "",
      session,
      ...named.map(([, value]) => value?.split(":")[1] ?? ""),
    ];
    expect([secrets.length, Math.min(...secrets.map((each) => each.length)) > 30]).toEqual([9, true]);

    // The test sends secrets in paths, queries, headers, cookies and bodies. The Worker accepts some of these requests and rejects others.
    const responses: string[] = [];
    const requestIds: string[] = [];
    const send = async (path: string, init: RequestInit) => {
      const response = await fetch(at(path), init);
      // Only requests to the API appear in the request log.
      if (response.headers.has("RateLimit")) requestIds.push(response.headers.get("X-Request-Id") ?? "");
      responses.push(await response.text());
    };
    const headers = { Authorization: `Bearer ${worker.key}`, "User-Agent": worker.key, "Idempotency-Key": worker.key };
    for (const path of [`/api/v1/tasks/${worker.key}`, `/api/v1/users?q=${worker.key}`, `/operator?token=${token}`, `/nothing/${token}`])
      await send(path, { headers: { ...headers, Cookie: cookie } });
    const body = JSON.stringify({ title: "", [worker.key]: secret });
    await send("/api/v1/tasks", { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body });
    for (const path of ["/health", "/metrics", "/team/v1/accounts", "/team/v1/secrets", "/team/v1/audit"])
      await send(path, { headers: { Authorization: `Bearer ${token}` } });
    for (const path of ["/keys", "/webhooks", "/activity", "/settings/audit", "/operator"])
      await send(path, { headers: { "Sec-Fetch-Site": "none", Cookie: cookie } });
    expect(requestIds.length).toBe(3);
    // Waits until D1 contains the log entries and the file worker.log contains the request lines. The test reads the database files and
    // worker.log after this wait.
    const readLog = () => readFileSync(join(worker.folder, "worker.log"), "utf8");
    await vi.waitFor(
      async () => {
        for (const id of requestIds) expect((await worker.api("GET", `/activity/${id}`)).id).toBe(id);
        for (const id of requestIds) expect(readLog()).toContain(id);
      },
      { timeout: 8000, interval: 100 },
    );

    const files = await run("sh", ["-c", "cat .wrangler/state/v3/d1/*/* .wrangler/state/v3/do/*/*"], { cwd: worker.folder });
    const log = readLog().split("\n");
    const places = {
      responses: responses.join("\n"),
      export: (await operator(["accounts", "export", account])).out,
      audit: (await operator(["audit", "list"])).out,
      databases: files.out,
      log: log.join("\n"),
    };
    for (const [place, text] of Object.entries(places)) {
      expect([place, text.length > 1000]).toEqual([place, true]);
      for (const [index, each] of secrets.entries()) expect([place, index, text.includes(each)]).toEqual([place, index, false]);
    }
    const lines = log.filter((line) => line.startsWith('{"http.request.method"')).map((line) => JSON.parse(line));
    expect(lines.length).toBeGreaterThan(10);
    for (const line of lines)
      expect(Object.keys(line)).toEqual(expect.arrayContaining(["http.request.method", "http.response.status_code", "dvo.request.id"]));
    const notFound = lines.find((line) => line["dvo.error.code"] === "not_found" && line["dvo.key.id"]);
    expect(notFound).toMatchObject({ "http.route": "/api/v1/tasks/{id}", "http.response.status_code": 404, "dvo.account.id": account });
  });
});
