import { spawn } from "node:child_process";
import { globSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, inject, it } from "vitest";
import { unstable_splitSqlQuery } from "wrangler";
import { copyProject, removeProject, root, run } from "./project.ts";

// `wrangler d1 migrations apply --remote` sends each migration as one text, and D1 splits it into statements. Wrangler itself splits it for the local
// runtime, by other rules: a migration can pass on a laptop and fail on Cloudflare with "incomplete input".

/**
 * Splits a migration by the strictest rules that cloudflare/workers-sdk#4998, #14991, #15314 and #15690 report of D1: at every semicolon, also in strings
 * and comments. It keeps a trigger whole only on one line, from an uppercase BEGIN to the first END.
 */
function splitAsD1(sql: string): string[] {
  const statement = /CREATE TRIGGER [^;\n\r]* BEGIN [^\n\r]*?\bEND\b[^;\n\r]*;|[^;]+;?/y;
  const found: string[] = [];
  const text = sql.replaceAll(/^--> statement-breakpoint$|(?<=;)--> statement-breakpoint$/gm, "");
  for (statement.lastIndex = 0; statement.lastIndex < text.length; ) {
    // The expression recognizes a trigger by its first word.
    statement.lastIndex += text.slice(statement.lastIndex).search(/\S|$/);
    const [each] = statement.exec(text) ?? [];
    if (each === undefined) break;
    found.push(each.replace(/;$/, "").trim());
  }
  return found;
}

/** Splits a migration by the rules of SQLite (`sqlite3_complete`), as wrangler does for the local runtime. */
const splitAsSqlite = (sql: string): string[] =>
  unstable_splitSqlQuery(sql.replaceAll(/--> statement-breakpoint$/gm, "")).map((each) => each.replace(/;$/, "").trim());

const migrations = ["main", "activity"].flatMap((database) =>
  readdirSync(join(root, "migrations", database))
    .filter((file) => file.endsWith(".sql"))
    .map((file) => `${database}/${file}`),
);

describe("A migration", () => {
  it.each(migrations)("has the same statements for D1 and for SQLite: %s", (file) => {
    const sql = readFileSync(join(root, "migrations", file), "utf8");
    expect(splitAsD1(sql).length).toBeGreaterThan(0);
    expect(splitAsD1(sql)).toEqual(splitAsSqlite(sql));
  });

  it.each(["main", "activity"])("runs after the ones before it, one statement of D1 at a time: %s", (database) => {
    const sqlite = new DatabaseSync(":memory:");
    const files = migrations.filter((file) => file.startsWith(`${database}/`)).toSorted();
    for (const file of files)
      for (const statement of splitAsD1(readFileSync(join(root, "migrations", file), "utf8"))) sqlite.prepare(statement).run();
    expect(sqlite.prepare("SELECT count(*) AS tables FROM sqlite_schema WHERE type = 'table'").get()?.tables).toBeGreaterThan(3);
  });

  const body = "UPDATE a SET n = n + 1;";
  it.each([
    ["a trigger over several lines", `CREATE TRIGGER t AFTER INSERT ON a BEGIN\n\t${body}\nEND;`],
    ["a trigger with a lowercase begin", `CREATE TRIGGER t AFTER INSERT ON a begin ${body} END;`],
    ["a trigger with a second END", `CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT CASE WHEN 1 THEN 2 END; ${body} END;`],
    ["a trigger with Windows line endings", `CREATE TRIGGER t AFTER INSERT ON a BEGIN\r\n${body}\r\nEND;`],
    ["a semicolon in a string", "INSERT INTO a VALUES ('one; two');"],
    ["a semicolon in a comment", "CREATE TABLE b (id TEXT); -- one; two\n"],
  ])("differs with %s", (_, sql) => {
    expect(splitAsD1(sql)).not.toEqual(splitAsSqlite(sql));
  });
});

describe("The bytes that a row is counted with", () => {
  const account = `acc_${"0".repeat(32)}`;
  const idOf = (prefix: string, n: number) => `${prefix}_${String(n).padStart(32, "0")}`;
  const hash = (n: number) => String(n).padStart(64, "0");
  const long = "x".repeat(240);
  const email = (n: number, before = "") => `${before}${n}@acme.dev`;
  const member = (n: number, before = "") => ({ name: "Ada", email: email(n, before), email_key: email(n, before), role: "viewer" });
  const user = (n: number, before = "") => ({ ...member(n, before), search_text: "ada", status: "active" });
  const entry = { actor_type: "key", actor_id: idOf("key", 1), target_type: "webhook", target_id: idOf("whk", 1), changes: "[]" };
  const key = { name: "A key", last4: "x7Qa", scopes: "[]", allowed_ips: "[]", created_by_type: "key", created_by_id: idOf("key", 1) };

  it.each<[table: string, name: string, row: (n: number) => Record<string, string | number>]>([
    ["users", "of a user", (n) => ({ id: idOf("usr", n), ...user(n) })],
    ["users", "of a user with a long address", (n) => ({ id: idOf("usr", n), ...user(n, long) })],
    ["members", "of a member", (n) => ({ id: idOf("mem", n), ...member(n) })],
    ["members", "of a member with a long address", (n) => ({ id: idOf("mem", n), ...member(n, long) })],
    [
      "invitations",
      "of a long address",
      (n) => ({ token_hash: hash(n), id: idOf("inv", n), kind: "invite", role: "viewer", email: email(n, long) }),
    ],
    ["audit", "of an entry about a key", (n) => ({ id: idOf("aud", n), action: "key.updated", ...entry })],
    ["audit", "of an entry about a webhook", (n) => ({ id: idOf("aud", n), action: "webhook.updated", ...entry })],
    ["audit", "of an entry about a rotation", (n) => ({ id: idOf("aud", n), action: "key.rotated", ...entry })],
    ["audit", "of an entry about a session", (n) => ({ id: idOf("aud", n), action: "session.started", ...entry })],
    ["api_keys", "of an expired key", (n) => ({ id: idOf("key", n), secret_hash: hash(n), state: "active", expires_at: n, ...key })],
    ["api_keys", "of a key", (n) => ({ id: idOf("key", n), secret_hash: hash(n), state: "revoked", ...key })],
  ])("are those that the file grows by, or more: %s, %s", (table, _, row) => {
    const sqlite = new DatabaseSync(":memory:");
    for (const file of migrations.filter((each) => each.startsWith("main/")).toSorted())
      for (const statement of splitAsD1(readFileSync(join(root, "migrations", file), "utf8"))) sqlite.prepare(statement).run();
    const read = (sql: string) => Number(Object.values(sqlite.prepare(sql).get() ?? {})[0]);
    const size = () => read("PRAGMA page_count") * read("PRAGMA page_size");
    const needed = sqlite.prepare(`SELECT name, type FROM pragma_table_info('${table}') WHERE "notnull" AND dflt_value IS NULL`).all();
    const rest = Object.fromEntries(
      needed.map(({ name, type }) => [name, String(type).toLowerCase() === "integer" ? 1_790_000_000_000 : ""]),
    );
    sqlite.exec("PRAGMA foreign_keys = OFF; BEGIN");
    const before = size();
    for (let n = 0; n < 4000; n++) {
      const values = { ...rest, account_id: account, revision: "0123456789abcdef", ...row(n) };
      const names = Object.keys(values).filter((name) => name !== "revision" || name in rest);
      const put = `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`;
      sqlite.prepare(put).run(Object.fromEntries(names.map((name) => [name, values[name as keyof typeof values] ?? null])) as never);
    }
    const counted = read(`SELECT bytes FROM account_storage WHERE account_id = '${account}'`) / (size() - before);
    expect(counted).toBeGreaterThan(0.95);
    expect(counted).toBeLessThan(1.4);
  });
});

describe("The migrations of the local databases", () => {
  it.runIf(inject("isLong"))("go on where they were killed, in the middle of a file", { tags: ["long"] }, async () => {
    const folder = copyProject();
    const file = join(folder, "migrations/main/0004_members.sql");
    const text = readFileSync(file, "utf8");
    const slow =
      "CREATE TABLE slow AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000) SELECT count(*) FROM n";
    const make = [process.execPath, "scripts/account.ts", "--name", "Acme", "--email", "acme@example.com"] as const;
    try {
      writeFileSync(file, `${text}\n--> statement-breakpoint\n${slow};`);
      const killed = spawn(make[0], make.slice(1), { cwd: folder, stdio: "ignore", detached: true });
      const ended = new Promise((resolve) => killed.once("exit", resolve));
      while (appliedIn(folder) < 4) await sleep(20);
      process.kill(-(killed.pid ?? 0), "SIGKILL");
      await ended;
      expect(appliedIn(folder)).toBe(4);
      writeFileSync(file, text);

      const { code, err } = await run(make[0], make.slice(1), { cwd: folder });
      expect([code, appliedIn(folder)], err).toEqual([0, migrations.filter((each) => each.startsWith("main/")).length]);
      const listed = await run(join(root, "node_modules/.bin/wrangler"), ["d1", "migrations", "list", "DB", "--local"], { cwd: folder });
      expect(listed.out).toContain("No migrations to apply");
    } finally {
      removeProject(folder);
    }
  });
});

/** How many files of migrations the main database of a project says were applied. */
function appliedIn(folder: string): number {
  for (const file of globSync(join(folder, ".wrangler/state/v3/d1/*/*.sqlite"))) {
    try {
      const database = new DatabaseSync(file, { readOnly: true });
      const rows = database.prepare("SELECT name FROM d1_migrations").all();
      database.close();
      if (rows.some(({ name }) => name === "0000_main.sql")) return rows.length;
    } catch {
      // It is not there yet, or is being written.
    }
  }
  return 0;
}
