import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { expect, it } from "vitest";
import { rowAsJson, rowOfJson } from "../../../src/db/row-as-json.ts";
import { db } from "../support/client.ts";

const columnCount = 70;
const names = Array.from({ length: columnCount }, (_, index) => `column_${index}`);

/** Creates a table `wide` with one row in the main database. Calls `use`, and then deletes the table. */
async function withWideTable(use: () => Promise<void>): Promise<void> {
  await env.DB.exec(`CREATE TABLE wide (list, is_set, ${names.join(", ")})`);
  try {
    await env.DB.exec(`INSERT INTO wide (list, is_set, column_0, column_69) VALUES ('["a","b"]', 1, '["no list"]', 'last')`);
    await use();
  } finally {
    await env.DB.exec("DROP TABLE wide");
  }
}

it("A row with more columns than a function has arguments is encoded as one value and decoded as Drizzle reads it", async () => {
  const wide = sqliteTable("wide", {
    list: text({ mode: "json" }).$type<string[]>(),
    isSet: integer("is_set", { mode: "boolean" }),
    ...Object.fromEntries(names.map((name) => [name, text()])),
  });
  await withWideTable(async () => {
    // The local runtime accepts more arguments in a function call than D1 does. The test therefore counts the arguments of each call.
    const { sql: query } = db.all(sql`SELECT ${rowAsJson(wide)}`).getQuery();
    const argumentCounts = [...query.matchAll(/json_array\(([^()]*)\)/g)].map(([, list = ""]) => list.split(",").length);
    expect(argumentCounts.reduce((sum, count) => sum + count, 0)).toBe(columnCount + 2);
    expect(Math.max(...argumentCounts, argumentCounts.length)).toBeLessThanOrEqual(32);
    const [encoded] = await db.all<{ row: string }>(sql`SELECT ${rowAsJson(wide)} AS row FROM wide`);
    const row = rowOfJson(wide, encoded?.row ?? "");
    expect([row]).toEqual(await db.select().from(wide));
    expect(row).toMatchObject({ list: ["a", "b"], isSet: true, column_0: '["no list"]', column_1: null, column_69: "last" });
  });
});
