import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { orderDump } from "../../scripts/operator/order-dump.ts";

const dump = `PRAGMA defer_foreign_keys=TRUE;
CREATE TABLE a (id TEXT PRIMARY KEY, b TEXT REFERENCES b (id));
INSERT INTO "a" VALUES('1; CREATE TABLE x','it''s
CREATE TABLE y;');
INSERT INTO "a" VALUES('2','${"long ".repeat(50_000)}');
CREATE TABLE b (id TEXT PRIMARY KEY);
CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b WHERE id = 'none'; INSERT INTO b VALUES ('by the trigger'); END;
`;

it("An export of D1 gets all its tables first, and keeps everything else as it is", async () => {
  const folder = mkdtempSync(join(tmpdir(), "dump-"));
  const [from, to] = [join(folder, "from.sql"), join(folder, "to.sql")];
  writeFileSync(from, dump);
  await orderDump(from, to);
  const ordered = readFileSync(to, "utf8");
  rmSync(folder, { recursive: true });
  expect(ordered.length).toBe(dump.length);
  expect(ordered.indexOf("CREATE TABLE b")).toBeLessThan(ordered.indexOf("INSERT INTO"));
  const database = new DatabaseSync(":memory:");
  database.exec("PRAGMA foreign_keys = OFF");
  database.exec(ordered);
  expect(database.prepare("SELECT id, substr(b, 1, 8) AS b FROM a ORDER BY id").all()).toEqual([
    { id: "1; CREATE TABLE x", b: "it's\nCRE" },
    { id: "2", b: "long lon" },
  ]);
  database.exec("INSERT INTO a VALUES ('3', NULL)");
  expect(database.prepare("SELECT id FROM b").all()).toEqual([{ id: "by the trigger" }]);
});
