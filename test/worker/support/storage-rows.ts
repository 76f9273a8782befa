import { env } from "cloudflare:workers";
import { maxStored, type Stored } from "../../../src/accounts/storage.ts";
import type { RecordedStatement } from "./d1.ts";

// Helpers for the rows of storage counters, stored responses and scheduled jobs. Other helpers read query plans and the schema of D1.

/** Returns the number of stored bytes that D1 has counted for an account. */
export const readStoredBytes = async (accountId: string): Promise<number> =>
  (await env.DB.prepare("SELECT bytes FROM account_storage WHERE account_id = ?").bind(accountId).first<number>("bytes")) ?? 0;

/** Returns the row counters of an account, one counter for each kind of row. */
export const readStoredCounts = (accountId: string) =>
  env.DB.prepare("SELECT users, tasks, events, idempotency_keys FROM account_storage WHERE account_id = ?")
    .bind(accountId)
    .first<Record<string, number>>();

/** Sets the row counter `what` of an account, so that the account may store only `rows` more rows of this kind. */
export async function leaveRoomFor(accountId: string, what: Stored, rows: number): Promise<void> {
  const column = what === "idempotencyKeys" ? "idempotency_keys" : what;
  await env.DB.prepare(
    `INSERT INTO account_storage (account_id, ${column}) VALUES (?, ?) ON CONFLICT DO UPDATE SET ${column} = excluded.${column}`,
  )
    .bind(accountId, maxStored[what] - rows)
    .run();
}

/** Sets the storage quota of an account, in bytes. */
export const setStorageQuota = (accountId: string, bytes: number) =>
  env.DB.prepare("UPDATE accounts SET storage_quota_bytes = ? WHERE id = ?").bind(bytes, accountId).run();

export const countRows = async (table: string, accountId?: string): Promise<number> => {
  const count =
    accountId === undefined ? `SELECT count(*) AS count FROM ${table}` : `SELECT count(*) AS count FROM ${table} WHERE account_id = ?`;
  return (
    (await env.DB.prepare(count)
      .bind(...(accountId === undefined ? [] : [accountId]))
      .first<number>("count")) ?? 0
  );
};

/** Returns the ids of an account's rows in a table. */
export const readIds = async (table: string, accountId: string): Promise<string[]> => {
  const { results } = await env.DB.prepare(`SELECT id FROM ${table} WHERE account_id = ?`).bind(accountId).all<{ id: string }>();
  return results.map(({ id }) => id);
};

/** Returns the size of the main database, in bytes. */
export const readDatabaseSize = async (): Promise<number> => (await env.DB.prepare("SELECT 1").run()).meta.size_after ?? 0;

/** Moves the creation times of an account's stored responses back by `ms` milliseconds. */
export const ageStoredResponses = (accountId: string, ms: number) =>
  env.DB.prepare("UPDATE idempotency_keys SET created_at = created_at - ? WHERE account_id = ?").bind(ms, accountId).run();

/** Returns the bodies of all stored responses. */
export const readStoredBodies = async (): Promise<string[]> =>
  (await env.DB.prepare("SELECT body FROM idempotency_keys").all<{ body: string }>()).results.map(({ body }) => body);

/** Returns the rows of all scheduled jobs. */
export const readJobs = async () => (await env.DB.prepare("SELECT * FROM jobs").all<Record<string, unknown>>()).results;

/** Inserts the row of a scheduled job. */
export const insertJob = (name: string, cursor: string, ranAt: number, hasMore: boolean) =>
  env.DB.prepare("INSERT INTO jobs (name, cursor, ran_at, took_ms, done, has_more) VALUES (?, ?, ?, 0, 0, ?)")
    .bind(name, cursor, ranAt, Number(hasMore))
    .run();

/** Deletes the rows of all scheduled jobs, so that the next run starts every job. */
export const deleteJobs = () => env.DB.prepare("DELETE FROM jobs").run();

/** Returns the lines of the query plan of a statement. */
export async function queryPlanOf({ query, values }: RecordedStatement, d1: D1Database = env.DB): Promise<string[]> {
  const { results } = await d1
    .prepare(`EXPLAIN QUERY PLAN ${query}`)
    .bind(...values)
    .all<{ detail: string }>();
  return results.map(({ detail }) => detail);
}

/** A table of the schema. `hidden` is 2 for a virtual generated column. */
export interface Table {
  name: string;
  sql: string;
  columns: { name: string; type: string; hidden: number }[];
}

/**
 * The tables whose rows do not count toward an account's storage. Two of them belong to the operator and outlive an account.
 * `account_storage` contains the counters.
 */
const uncountedTables = ["account_storage", "erasures", "operator_audit"];

/** Returns the tables whose rows count toward an account's storage. Each row of these tables names an account, a member or a delivery. */
export async function readCountedTables(): Promise<Table[]> {
  const { results } = await env.DB.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").all<Table>();
  const tables = await Promise.all(
    results
      .filter(({ name }) => !/^(sqlite|d1|_cf)_/.test(name))
      .map(async (table) => {
        const columns = await env.DB.prepare(`PRAGMA table_xinfo(${table.name})`).all<Table["columns"][number]>();
        return { ...table, columns: columns.results };
      }),
  );
  const hasOwner = ({ columns }: Table) => columns.some(({ name }) => ["account_id", "member_id", "delivery_id"].includes(name));
  return tables.filter((table) => !uncountedTables.includes(table.name) && hasOwner(table));
}

/** Returns the SQL of each trigger in the schema, by name. */
export async function readTriggers(): Promise<Map<string, string>> {
  const { results } = await env.DB.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").all<{
    name: string;
    sql: string;
  }>();
  return new Map(results.map(({ name, sql }) => [name, sql]));
}

/** Returns the SQL expression with which a trigger finds the account of a row. `row` is the name of the row in the trigger. */
export function accountExpression({ columns }: Table, row: "NEW" | "OLD"): string {
  const names = columns.map(({ name }) => name);
  if (names.includes("account_id")) return `${row}.account_id`;
  const [owners, id] = names.includes("member_id") ? ["members", "member_id"] : ["deliveries", "delivery_id"];
  return `(SELECT account_id FROM ${owners} WHERE id = ${row}.${id})`;
}

/** Returns the sum of `row_bytes` over all rows of an account. */
export async function sumRowBytes(accountId: string): Promise<number> {
  const sums = (await readCountedTables()).map((table) =>
    env.DB.prepare(
      `SELECT coalesce(sum(row_bytes), 0) AS bytes FROM ${table.name} AS NEW WHERE ${accountExpression(table, "NEW")} = ?`,
    ).bind(accountId),
  );
  return (await env.DB.batch<{ bytes: number }>(sums)).reduce((sum, { results }) => sum + (results[0]?.bytes ?? 0), 0);
}
