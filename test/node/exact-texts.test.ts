import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, it } from "vitest";
import { wrangler } from "../../scripts/deploy/wrangler.ts";
import { exactTexts } from "../../scripts/operator/exact-texts.ts";

const long = it.runIf(inject("isLong"));

/** The SQL of a correction. */
const correction = (text: string, isRow: string) =>
  `UPDATE "t" SET "text" = CAST(X'${Buffer.from(text).toString("hex").toUpperCase()}' AS TEXT) WHERE ${isRow};`;

long("The texts that an export cannot represent are found in a table of any length", { tags: ["long"], timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "texts-"));
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, 'name = "texts"\n[[d1_databases]]\nbinding = "DB"\ndatabase_name = "texts"\ndatabase_id = "texts"\n');
  const [first, last, other] = ["a\\n\nb", "c\\r\r'd'", "line\nbreaks, and \\t"];
  const hex = (text = "") => `CAST(X'${Buffer.from(text).toString("hex")}' AS TEXT)`;
  const statements = [
    "CREATE TABLE t (account TEXT, id INTEGER, text TEXT, bytes INTEGER GENERATED ALWAYS AS (length(text)) VIRTUAL, PRIMARY KEY (account, id)) WITHOUT ROWID",
    "WITH RECURSIVE n(id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM n WHERE id < 11000) INSERT INTO t SELECT iif(id < 3000, 'a', 'b;'), id, 'plain' FROM n",
    `UPDATE t SET text = ${hex(first)} WHERE id = 5000`,
    `UPDATE t SET text = ${hex(other)} WHERE id = 5001`,
    `UPDATE t SET text = ${hex(last)} WHERE id = 11000`,
  ];
  writeFileSync(join(folder, "rows.sql"), `${statements.join(";\n")};\n`);
  await wrangler(["d1", "execute", "DB", "--local", "--file", join(folder, "rows.sql")], { config });
  const found = await exactTexts({ which: "DB", where: "--local", config }, ["t"]);
  rmSync(folder, { recursive: true });
  expect(found).toEqual([
    correction(first ?? "", `"account" = 'b;' AND "id" = 5000`),
    correction(last ?? "", `"account" = 'b;' AND "id" = 11000`),
  ]);
});
