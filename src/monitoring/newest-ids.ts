import { sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { tablesOfAccounts } from "../db/registry/area-tables.ts";

/** The main-database tables with a primary key that consists of the account id and the row id. */
const tables = tablesOfAccounts.filter(({ isLog, primaryKey }) => !isLog && primaryKey.join() === "account_id,id");

/** For each id prefix, returns the newest id in an account. */
export async function readNewestIds(db: Db, accountId: string): Promise<Record<string, string>> {
  const newest = tables.map(({ name }) => sql`(SELECT max(id) FROM ${sql.identifier(name)} WHERE account_id = ${accountId})`);
  const [found] = await db.all<{ ids: string }>(sql`SELECT json_array(${sql.join(newest, sql.raw(", "))}) AS ids`);
  const ids = JSON.parse(found?.ids ?? "[]") as (string | null)[];
  return Object.fromEntries(ids.flatMap((id) => (id === null ? [] : [[id.slice(0, id.indexOf("_")), id]])));
}
