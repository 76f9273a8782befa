import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import type { db } from "./client.ts";

// Variants of a database for tests. A variant replaces some methods, or counts or records the statements.

interface Methods {
  batch?: (statements: D1PreparedStatement[]) => Promise<unknown>;
  prepare?: (query: string) => unknown;
}

/** Returns `database` with some methods replaced by `methods`. */
export const d1With = (database: D1Database, methods: Methods): D1Database =>
  new Proxy(database, { get: (target, name) => Reflect.get(methods, name) ?? Reflect.get(target, name).bind(target) });

/** Returns the main database. It calls `work` just before each batch. */
export const d1BeforeBatches = (work: () => Promise<unknown>): D1Database =>
  d1With(env.DB, {
    batch: async (statements) => {
      await work();
      return env.DB.batch(statements);
    },
  });

const reject = () => Promise.reject(new Error("D1_ERROR: out of order"));

/** Returns a database that rejects every batch. */
export const d1WithoutBatches = (database: D1Database): D1Database => d1With(database, { batch: reject });

/** A log database that rejects everything. */
export const d1Away: D1Database = d1With(env.ACTIVITY_0, {
  batch: reject,
  prepare: (query) => {
    const statement = env.ACTIVITY_0.prepare(query);
    const rejecting = { all: reject, raw: reject, run: reject, first: reject };
    return Object.assign(statement, rejecting, { bind: () => rejecting });
  },
});

/** Returns the main database, and the number of statements that were prepared on it. */
export function countingD1() {
  const counts = { statements: 0 };
  const prepare = (query: string) => {
    counts.statements++;
    return env.DB.prepare(query);
  };
  return { DB: d1With(env.DB, { prepare }), counts };
}

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
