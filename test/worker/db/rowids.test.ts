import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { readTables } from "../support/schema.ts";

it("Tables with wide rows have a rowid, and tables with narrow rows have none", async () => {
  const tables = (await Promise.all([env.DB, env.ACTIVITY_0].map(readTables))).flat();
  const isWithoutRowid = (table: string) => /WITHOUT ROWID/.test(tables.find(({ name }) => name === table)?.sql ?? "");
  for (const name of ["tasks", "events", "attempts", "idempotency_keys", "activity_segments", "hour_totals"])
    expect(isWithoutRowid(name), name).toBe(false);
  for (const name of ["api_keys", "deliveries"]) expect(isWithoutRowid(name), name).toBe(true);
});
