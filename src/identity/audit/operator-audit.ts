import { and, desc, eq, gte, lt, or, type SQL, sql } from "drizzle-orm";
import { operatorAudit } from "../../db/areas/operators/tables.ts";
import type { Db, Statement } from "../../db/client.ts";
import { insertWhere } from "../../db/insert-where.ts";
import { type Page, pageFrom } from "../../db/page.ts";
import { idBound, newId } from "../../lib/ids.ts";

// The operator audit records what operators did. The operator audit is separate from the audit logs of accounts. When an account is erased, the
// entries of the operator audit are kept.

export type Operation = typeof operatorAudit.$inferSelect;

/** A new entry for the operator audit. `details`: numbers and names that describe the action, but never a secret. */
export interface NewOperation {
  now: number;
  operator: string;
  /** The id of the service token. Undefined for an operator token. */
  tokenId?: string | null | undefined;
  action: string;
  accountId?: string | null;
  targetId?: string | null;
  details?: object;
}

/** Returns a statement. If `when` is true, the statement stores an entry in the operator audit. */
export const storeOperation = (
  db: Db,
  { now, operator, tokenId = null, action, accountId = null, targetId = null, details = {} }: NewOperation,
  when: SQL = sql`true`,
): Statement =>
  insertWhere(
    db,
    operatorAudit,
    { id: newId("opr", now), operator, tokenId, action, accountId, targetId, details: details as Record<string, unknown> },
    when,
  );

/**
 * Stores an entry in the operator audit for an action that has no batch of its own: it reads, or works in many pieces. Call it before the action, so that no
 * action is without its entry.
 */
export const recordOperation = async (
  { db, now, operator, tokenId }: { db: Db } & Pick<NewOperation, "now" | "operator" | "tokenId">,
  about: Omit<NewOperation, "now" | "operator" | "tokenId">,
): Promise<void> => {
  await storeOperation(db, { now, operator, tokenId, ...about });
};

/** Which actions of operators to list. Times are in milliseconds since the epoch. */
export interface OperationFilter {
  accountId?: string | undefined;
  operator?: string | undefined;
  /** An action, or the beginning of actions up to a dot, for example `account`. */
  action?: string | undefined;
  targetId?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

/** Lists the actions of operators, newest first. */
export async function listOperations(
  db: Db,
  { accountId, operator, action, targetId, from, to }: OperationFilter,
  after: string | undefined,
  limit: number,
): Promise<Page<Operation, string>> {
  const rows = await db
    .select()
    .from(operatorAudit)
    .where(
      and(
        after === undefined ? undefined : lt(operatorAudit.id, after),
        accountId === undefined ? undefined : eq(operatorAudit.accountId, accountId),
        operator === undefined ? undefined : eq(operatorAudit.operator, operator),
        targetId === undefined ? undefined : eq(operatorAudit.targetId, targetId),
        action === undefined
          ? undefined
          : or(eq(operatorAudit.action, action), sql`substr(${operatorAudit.action}, 1, ${action.length + 1}) = ${`${action}.`}`),
        from === undefined ? undefined : gte(operatorAudit.id, idBound("opr", from)),
        to === undefined ? undefined : lt(operatorAudit.id, idBound("opr", to)),
      ),
    )
    .orderBy(desc(operatorAudit.id))
    .limit(limit + 1);
  return pageFrom(rows, limit, ({ id }) => id);
}
