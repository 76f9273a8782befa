import { type SQL, sql } from "drizzle-orm";
import { type Db, raw } from "./client.ts";
import { messagesOf } from "./failures.ts";

/**
 * A statement that fails the batch it stands in, and so undoes all of it, unless `condition` holds. SQLite has no statement for
 * that; it does refuse a malformed JSON path, and says which, so `name` tells these failures apart.
 */
export const requireInBatch = (db: Db, condition: SQL, name: string) =>
  raw(db, sql`SELECT json_extract('{}', iif(${condition}, '$', ${pathOf(name)}))`);

/** Whether a batch failed at the condition of that name. */
export const isFailedCondition = (error: unknown, name: string): boolean => messagesOf(error).includes(pathOf(name));

const pathOf = (name: string) => `condition failed: ${name}`;
