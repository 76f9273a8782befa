import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { unstable_splitSqlQuery } from "wrangler";
import { root } from "./project.ts";

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
