import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { expect, it } from "vitest";
import { rowAsJson, rowOfJson } from "../../../src/db/row-as-json.ts";
import { db } from "../support/client.ts";

const count = 70;
const names = Array.from({ length: count }, (_, index) => `column_${index}`);

it("A row of more columns than a function has arguments fits into one value, and is read as Drizzle reads it", async () => {
  const wide = sqliteTable("wide", {
    list: text({ mode: "json" }).$type<string[]>(),
    isSet: integer("is_set", { mode: "boolean" }),
    ...Object.fromEntries(names.map((name) => [name, text()])),
  });
  await env.DB.exec(`CREATE TABLE wide (list, is_set, ${names.join(", ")})`);
  try {
    await db.run(sql.raw(`INSERT INTO wide (list, is_set, column_0, column_69) VALUES ('["a","b"]', 1, '["no list"]', 'last')`));
    // The local runtime takes more arguments than D1 does.
    const { sql: text } = db.all(sql`SELECT ${rowAsJson(wide)}`).getQuery();
    const calls = [...text.matchAll(/json_array\(([^()]*)\)/g)].map(([, given = ""]) => given.split(",").length);
    expect(calls.reduce((sum, arguments_) => sum + arguments_, 0)).toBe(count + 2);
    expect(Math.max(...calls, calls.length)).toBeLessThanOrEqual(32);
    const [read] = await db.all<{ row: string }>(sql`SELECT ${rowAsJson(wide)} AS row FROM wide`);
    const row = rowOfJson(wide, read?.row ?? "");
    expect([row]).toEqual(await db.select().from(wide));
    expect(row).toMatchObject({ list: ["a", "b"], isSet: true, column_0: '["no list"]', column_1: null, column_69: "last" });
  } finally {
    await env.DB.exec("DROP TABLE wide");
  }
});
