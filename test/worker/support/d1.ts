import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import type { db } from "./client.ts";

// Variants of the main database for tests. One variant replaces some methods, and the other variant records the statements.

/** Returns the main database with some of its methods replaced. */
export const databaseWith = (methods: { batch?: D1Database["batch"]; prepare?: (query: string) => object }): D1Database =>
  new Proxy(env.DB, { get: (database, name) => Reflect.get(methods, name) ?? Reflect.get(database, name).bind(database) });

export interface RecordedStatement {
  query: string;
  values: unknown[];
}

/** Returns a client of the main database and a list of the statements that the client runs. */
export function recordStatements() {
  const statements: RecordedStatement[] = [];
  const logger = { logQuery: (query: string, values: unknown[]) => void statements.push({ query, values }) };
  return { recordingDb: drizzle(env.DB, { logger }) as typeof db, statements };
}

/** Runs a recorded statement again. Returns the number of rows that D1 read. */
export async function countRowsRead({ query, values }: RecordedStatement): Promise<number> {
  const { meta } = await env.DB.prepare(query)
    .bind(...values)
    .run();
  return meta.rows_read;
}
