import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { rewriteDump } from "../../scripts/operator/rewrite-dump.ts";
import { splitAsD1 } from "../cloudflare/d1.ts";

/** Rewrites an export, and runs it under D1's rules: statement by statement, with foreign keys, and at most 100,000 bytes each. */
async function imported(dump: string, correctionsOf = async (_tables: readonly string[]): Promise<string[]> => []): Promise<DatabaseSync> {
  const folder = mkdtempSync(join(tmpdir(), "dump-"));
  const [from, to] = [join(folder, "from.sql"), join(folder, "to.sql")];
  writeFileSync(from, dump);
  await rewriteDump(from, to, correctionsOf);
  const rewritten = readFileSync(to, "utf8");
  rmSync(folder, { recursive: true });
  const database = new DatabaseSync(":memory:", { enableForeignKeyConstraints: true });
  for (const statement of splitAsD1(rewritten)) {
    expect(Buffer.byteLength(statement)).toBeLessThanOrEqual(100_000);
    database.exec(statement);
  }
  return database;
}

/** An SQL literal with all bytes in hex, as an export has it. */
const hex = (bytes: Buffer) => `X'${bytes.toString("hex")}'`;
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

it("An export of D1 gets its tables first, then the rows that others refer to, and then everything else", async () => {
  const database = await imported(`PRAGMA defer_foreign_keys=TRUE;
CREATE TABLE \`tasks\` (id TEXT PRIMARY KEY, user TEXT REFERENCES users(id));
INSERT INTO "tasks" ("id","user") VALUES('t1','u1');
INSERT INTO "tasks" ("id","user") VALUES('t2',NULL);
CREATE TABLE "users" (id TEXT PRIMARY KEY, plan TEXT, FOREIGN KEY (\`plan\`) REFERENCES \`plans\`(\`id\`));
INSERT INTO "users" ("id","plan") VALUES('u1','p1');
CREATE TABLE IF NOT EXISTS plans(id TEXT PRIMARY KEY, above TEXT REFERENCES plans(id));
INSERT INTO "plans" ("id","above") VALUES('p1',NULL);
CREATE UNIQUE INDEX users_by_plan ON users (plan);
CREATE TRIGGER t AFTER INSERT ON tasks BEGIN DELETE FROM tasks WHERE id = 'none'; INSERT INTO users VALUES ('by the trigger', 'p1'); END;
`);
  expect(database.prepare("SELECT tasks.id, plan FROM tasks LEFT JOIN users ON user = users.id ORDER BY 1").all()).toEqual([
    { id: "t1", plan: "p1" },
    { id: "t2", plan: null },
  ]);
  expect(() => database.exec("INSERT INTO tasks VALUES ('t3', NULL)")).toThrow("UNIQUE constraint failed: users.plan");
  expect(
    database
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")
      .all()
      .map(({ name }) => name),
  ).toEqual(["plans", "tasks", "users"]);
});

it("Each value of an export of D1 keeps its bytes, even if it is long, and with any characters", async () => {
  const texts = [
    "",
    "it's; CREATE TABLE x;\r\n-- '",
    "😀".repeat(60_000),
    `${"'".repeat(99_999)};`,
    "a\n".repeat(1_000_000),
    `{"text": "${"long ".repeat(30_000)}"}`,
  ];
  const blobs = [
    Buffer.alloc(0),
    Buffer.from([0, 255, 39, 59]),
    Buffer.alloc(2_000_000, "\u0000ÿ';", "latin1"),
    Buffer.alloc(54_001, 0xc3),
  ];
  const rows = [...texts.map((text, id) => [id, literal(text), "NULL"]), ...blobs.map((blob, id) => [id + 100, "'b'", hex(blob)])];
  // Many values of middle length make a long statement, too.
  const wide = Array.from({ length: 8 }, () => literal(";".repeat(9000)));
  const database = await imported(`PRAGMA defer_foreign_keys=TRUE;
CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, bytes BLOB);
${rows.map((row) => `INSERT INTO "a" ("id","text","bytes") VALUES(${row.join(",")});`).join("\n")}
INSERT INTO "a" ("id","text","bytes") VALUES(200,replace('${"b\\n".repeat(40_000)}','\\n',char(10)),NULL);
CREATE TABLE wide (a, b, c, d, e, f, g, h);
INSERT INTO "wide" ("a","b","c","d","e","f","g","h") VALUES(${wide.join(",")});
DELETE FROM sqlite_sequence;
INSERT INTO "sqlite_sequence" ("name","seq") VALUES('a',300);
`);
  const found = (id: number) => database.prepare("SELECT text, bytes, typeof(text) AS t, typeof(bytes) AS b FROM a WHERE id = ?").get(id);
  for (const [id, text] of texts.entries()) expect(found(id)?.text === text && found(id)?.t === "text", `text ${id}`).toBe(true);
  for (const [id, blob] of blobs.entries()) {
    const { bytes, b } = found(id + 100) ?? {};
    expect([b, Buffer.from(bytes as Uint8Array).equals(blob)], `bytes ${id}`).toEqual(["blob", true]);
  }
  expect(found(200)?.text === "b\n".repeat(40_000)).toBe(true);
  expect(database.prepare("SELECT length(a || b || c || d || e || f || g || h) AS length FROM wide").get()).toEqual({ length: 72_000 });
  expect(database.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'a'").get()).toEqual({ seq: 300 });
});

it("An export of D1 gets the corrections of tables in whose texts there are line breaks", async () => {
  const exact = `${"a\\n\n".repeat(30_000)}😀`;
  const asked: string[] = [];
  const database = await imported(
    `CREATE TABLE a (id INTEGER PRIMARY KEY, text TEXT);
INSERT INTO "a" ("id","text") VALUES(1,replace('${exact.replaceAll("\n", "\\n")}','\\n',char(10)));
CREATE TABLE b (id INTEGER PRIMARY KEY, text TEXT);
INSERT INTO "b" ("id","text") VALUES(1,'no line breaks, but \\n');
CREATE TRIGGER changed AFTER UPDATE ON a BEGIN INSERT INTO b VALUES (2, 'by the trigger'); END;
`,
    async (tables) => {
      asked.push(...tables);
      return [`UPDATE "a" SET "text" = CAST(${hex(Buffer.from(exact))} AS TEXT) WHERE "id" = 1;`];
    },
  );
  expect(asked).toEqual(["a"]);
  expect(database.prepare("SELECT text FROM a").get()?.text === exact).toBe(true);
  expect(database.prepare("SELECT text FROM b").all()).toEqual([{ text: "no line breaks, but \\n" }]);
});
