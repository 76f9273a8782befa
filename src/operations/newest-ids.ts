import { sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { tablesOfAccounts } from "../registry/area-tables.ts";

/** The tables whose rows are found by account and id. */
const tables = tablesOfAccounts.filter(({ isLog, primaryKey }) => !isLog && primaryKey.join() === "account_id,id");

/** Returns the newest id of each kind that an account has, by the prefix of the id. */
export async function readNewestIds(db: Db, accountId: string): Promise<Record<string, string>> {
  const newest = tables.map(({ name }) => sql`SELECT max(id) AS id FROM ${sql.identifier(name)} WHERE account_id = ${accountId}`);
  const rows = await db.all<{ id: string | null }>(sql.join(newest, sql.raw(" UNION ALL ")));
  return Object.fromEntries(rows.flatMap(({ id }) => (id === null ? [] : [[id.slice(0, id.indexOf("_")), id]])));
}
