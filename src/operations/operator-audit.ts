import { desc, lt, type SQL, sql } from "drizzle-orm";
import type { Db, Statement } from "../db/client.ts";
import { insertWhere } from "../db/insert-where.ts";
import { type Page, pageFrom } from "../db/page.ts";
import { newId } from "../ids/ids.ts";
import { operatorAudit } from "./tables.ts";

// What operators did. Beside the audit log of an account, and kept when the account is erased.

export type Operation = typeof operatorAudit.$inferSelect;

/** `details`: numbers and names, never a secret. */
export interface NewOperation {
  now: number;
  operator: string;
  action: string;
  accountId?: string | null;
  targetId?: string | null;
  details?: object;
}

/** The statement that stores an entry, where `when` holds. */
export const storeOperation = (
  db: Db,
  { now, operator, action, accountId = null, targetId = null, details = {} }: NewOperation,
  when: SQL = sql`true`,
): Statement =>
  insertWhere(
    db,
    operatorAudit,
    { id: newId("opr", now), operator, action, accountId, targetId, details: details as Record<string, unknown> },
    when,
  );

/** Stores an entry of something that no row was changed by. */
export const recordOperation = async (db: Db, operation: NewOperation): Promise<void> => {
  await storeOperation(db, operation);
};

/** What operators did, the latest first. */
export async function listOperations(db: Db, after: string | undefined, limit: number): Promise<Page<Operation, string>> {
  const rows = await db
    .select()
    .from(operatorAudit)
    .where(after === undefined ? undefined : lt(operatorAudit.id, after))
    .orderBy(desc(operatorAudit.id))
    .limit(limit + 1);
  return pageFrom(rows, limit, ({ id }) => id);
}
