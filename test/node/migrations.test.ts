import { spawn } from "node:child_process";
import { globSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, inject, it, vi } from "vitest";
import { unstable_splitSqlQuery } from "wrangler";
import { splitAsD1 } from "../cloudflare/d1.ts";
import { copyProject, removeProject, root, run } from "./project.ts";

/** Splits a migration by the rules of SQLite (`sqlite3_complete`), as wrangler does for the local runtime. */
const splitAsSqlite = (sql: string): string[] =>
  unstable_splitSqlQuery(sql.replaceAll(/--> statement-breakpoint$/gm, "")).map((each) => each.replace(/;$/, "").trim());

const migrations = ["main", "activity"].flatMap((database) =>
  readdirSync(join(root, "migrations", database))
    .filter((file) => file.endsWith(".sql"))
    .map((file) => `${database}/${file}`),
);

/** Splits a migration as D1 would, and runs the statements. */
function migrate(database: DatabaseSync, file: string): void {
  for (const statement of splitAsD1(readFileSync(join(root, "migrations", file), "utf8"))) database.prepare(statement).run();
}

/** Applies all migrations in the folder "main" or "activity" to a new database in memory. Returns the database. */
function migrated(folder: string): DatabaseSync {
  const database = new DatabaseSync(":memory:");
  for (const file of migrations.filter((each) => each.startsWith(`${folder}/`)).toSorted()) migrate(database, file);
  return database;
}

const countTables = (database: DatabaseSync): number =>
  Number(database.prepare("SELECT count(*) AS tables FROM sqlite_schema WHERE type = 'table'").get()?.tables);

/** Returns the size of a database, in bytes. */
function sizeOf(database: DatabaseSync): number {
  const [pages, pageSize] = [database.prepare("PRAGMA page_count").get(), database.prepare("PRAGMA page_size").get()];
  return Number(pages?.page_count) * Number(pageSize?.page_size);
}

/** Returns the number of bytes that the triggers have counted for an account. */
const readStoredBytes = (database: DatabaseSync, accountId: string): number =>
  Number(database.prepare("SELECT bytes FROM account_storage WHERE account_id = ?").get(accountId)?.bytes);

const accountId = `acc_${"0".repeat(32)}`;
type Row = Record<string, string | number>;

/** Inserts rows in one transaction. If a row omits a required column that has no default, the column gets a typical value. */
function insertRows(database: DatabaseSync, table: string, rows: Row[]): void {
  const required = database.prepare(`SELECT name, type FROM pragma_table_info('${table}') WHERE "notnull" AND dflt_value IS NULL`).all();
  const usual: Row = Object.fromEntries(
    required.map(({ name, type }) => [name, String(type).toLowerCase() === "integer" ? 1_790_000_000_000 : ""]),
  );
  if ("revision" in usual) usual.revision = "0123456789abcdef";
  if ("account_id" in usual) usual.account_id = accountId;
  database.exec("PRAGMA foreign_keys = OFF; BEGIN");
  for (const row of rows) {
    const values = { ...usual, ...row };
    const names = Object.keys(values);
    const insert = `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`;
    database.prepare(insert).run(values);
  }
  database.exec("COMMIT");
}

describe("A migration", () => {
  it.each(migrations)("has the same statements for D1 and for SQLite: %s", (file) => {
    const sql = readFileSync(join(root, "migrations", file), "utf8");
    expect(splitAsD1(sql).length).toBeGreaterThan(0);
    expect(splitAsD1(sql)).toEqual(splitAsSqlite(sql));
  });

  it.each(["main", "activity"])("runs after the earlier migrations, split by the rules of D1: %s", (folder) => {
    expect(countTables(migrated(folder))).toBeGreaterThan(3);
  });

  const body = "UPDATE a SET n = n + 1;";
  it.each([
    ["a trigger over several lines", `CREATE TRIGGER t AFTER INSERT ON a BEGIN\n\t${body}\nEND;`],
    ["a trigger with a lowercase begin", `CREATE TRIGGER t AFTER INSERT ON a begin ${body} END;`],
    ["a trigger with a second END", `CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT CASE WHEN 1 THEN 2 END; ${body} END;`],
    ["a trigger with Windows line endings", `CREATE TRIGGER t AFTER INSERT ON a BEGIN\r\n${body}\r\nEND;`],
    ["a semicolon in a string", "INSERT INTO a VALUES ('one; two');"],
    ["a semicolon in a comment", "CREATE TABLE b (id TEXT); -- one; two\n"],
  ])("has different statements for D1 and for SQLite if it contains %s", (_, sql) => {
    expect(splitAsD1(sql)).not.toEqual(splitAsSqlite(sql));
  });
});

describe("The counted bytes", () => {
  const idOf = (prefix: string, n: number) => `${prefix}_${String(n).padStart(32, "0")}`;
  const hash = (n: number) => String(n).padStart(64, "0");
  const longPrefix = "x".repeat(240);
  const email = (n: number, prefix = "") => `${prefix}${n}@acme.dev`;
  const member = (n: number, prefix = "") => ({ name: "Ada", email: email(n, prefix), email_key: email(n, prefix), role: "viewer" });
  const user = (n: number, prefix = "") => ({ ...member(n, prefix), search_text: "ada", status: "active" });
  const entry = { actor_type: "key", actor_id: idOf("key", 1), target_type: "webhook", target_id: idOf("whk", 1), changes: "[]" };
  const key = { name: "A key", last4: "x7Qa", scopes: "[]", allowed_ips: "[]", created_by_type: "key", created_by_id: idOf("key", 1) };

  const event = (n: number) => ({
    id: idOf("evt", n),
    type: "task.created",
    data: "x".repeat(300 + (n % 400)),
    sequence: n,
    request_id: idOf("req", n),
  });
  const attempt = (n: number) => ({
    delivery_id: idOf("dlv", n),
    id: idOf("att", n),
    status: 200,
    response_body: "ok",
    response_headers: "x".repeat(370),
  });

  it.each<[name: string, table: string, row: (n: number) => Row, more?: [table: string, row: (n: number) => Row][]]>([
    ["a user", "users", (n) => ({ id: idOf("usr", n), ...user(n) })],
    ["a user with a long email address", "users", (n) => ({ id: idOf("usr", n), ...user(n, longPrefix) })],
    ["a member", "members", (n) => ({ id: idOf("mem", n), ...member(n) })],
    ["a member with a long email address", "members", (n) => ({ id: idOf("mem", n), ...member(n, longPrefix) })],
    [
      "an invitation to a long email address",
      "invitations",
      (n) => ({ token_hash: hash(n), id: idOf("inv", n), kind: "invite", role: "viewer", email: email(n, longPrefix) }),
    ],
    ["an audit log entry about a key", "audit", (n) => ({ id: idOf("aud", n), action: "key.updated", ...entry })],
    ["an audit log entry about a webhook", "audit", (n) => ({ id: idOf("aud", n), action: "webhook.updated", ...entry })],
    ["an audit log entry about a rotation", "audit", (n) => ({ id: idOf("aud", n), action: "key.rotated", ...entry })],
    ["an audit log entry about a session", "audit", (n) => ({ id: idOf("aud", n), action: "session.started", ...entry })],
    ["an event", "events", event],
    [
      "an event with a delivery and its attempt",
      "deliveries",
      (n) => ({
        id: idOf("dlv", n),
        webhook_id: idOf("whk", 1),
        event_id: idOf("evt", n),
        event_type: "task.created",
        status: "delivered",
      }),
      [
        ["events", event],
        ["attempts", attempt],
      ],
    ],
    [
      "a task",
      "tasks",
      (n) => ({ id: idOf("tsk", n), title: "Write the notes", description: "x".repeat(n % 400), search_text: "x".repeat(20 + (n % 400)) }),
    ],
    ["an expired key", "api_keys", (n) => ({ id: idOf("key", n), secret_hash: hash(n), state: "active", expires_at: n, ...key })],
    ["a revoked key", "api_keys", (n) => ({ id: idOf("key", n), secret_hash: hash(n), state: "revoked", ...key })],
  ])("of %s are between 95 % and 140 % of the bytes that the database grows by (table %s)", (_, table, row, more = []) => {
    const database = migrated("main");
    const sizeBefore = sizeOf(database);
    const tables: [table: string, row: (n: number) => Row][] = [[table, row], ...more];
    for (const [name, rowOf] of tables)
      insertRows(
        database,
        name,
        Array.from({ length: 4000 }).map((_, n) => rowOf(n)),
      );
    const ratio = readStoredBytes(database, accountId) / (sizeOf(database) - sizeBefore);
    expect(ratio).toBeGreaterThan(0.95);
    expect(ratio).toBeLessThan(1.4);
  });
});

describe("A local migration", () => {
  it.runIf(inject("isLong"))("continues after it was killed in the middle of a file", { tags: ["long"] }, async () => {
    const folder = copyProject();
    const file = join(folder, "migrations/main/9999_slow.sql");
    const ours = migrations.filter((each) => each.startsWith("main/")).length;
    const createAccount = ["scripts/account.ts", "--name", "Acme", "--email", "acme@example.com"];
    try {
      writeFileSync(file, `CREATE TABLE quick (id TEXT);--> statement-breakpoint\n${slowStatement};`);
      const killed = spawn(process.execPath, createAccount, { cwd: folder, stdio: "ignore", detached: true });
      const ended = new Promise((resolve) => killed.once("exit", resolve));
      await vi.waitUntil(() => countAppliedMigrations(folder) >= ours, { timeout: 120_000, interval: 20 });
      process.kill(-(killed.pid ?? 0), "SIGKILL");
      await ended;
      expect(countAppliedMigrations(folder)).toBe(ours);
      writeFileSync(file, "CREATE TABLE quick (id TEXT);");

      const { code, err } = await run(process.execPath, createAccount, { cwd: folder });
      expect([code, countAppliedMigrations(folder)], err).toEqual([0, ours + 1]);
      const listed = await run(join(root, "node_modules/.bin/wrangler"), ["d1", "migrations", "list", "DB", "--local"], { cwd: folder });
      expect(listed.out).toContain("No migrations to apply");
    } finally {
      removeProject(folder);
    }
  });
});

/** A statement that takes many seconds. */
const slowStatement =
  "CREATE TABLE slow AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000) SELECT count(*) FROM n";

/** Returns the number of migrations that were applied to the main database of a project. */
function countAppliedMigrations(folder: string): number {
  for (const file of globSync(join(folder, ".wrangler/state/v3/d1/*/*.sqlite"))) {
    try {
      const database = new DatabaseSync(file, { readOnly: true });
      const rows = database.prepare("SELECT name FROM d1_migrations").all();
      database.close();
      if (rows.some(({ name }) => name === "0000_main.sql")) return rows.length;
    } catch {
      // The database is not ready yet, or wrangler is writing to the database.
    }
  }
  return 0;
}
