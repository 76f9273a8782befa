import { and, eq, gt, lte, sql } from "drizzle-orm";
import { dayMs } from "../clock.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { isDuplicate } from "../db/failures.ts";
import { idempotencyKeys } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { type Commit, commitChange, type Wake } from "../webhooks/commit.ts";

const keptMs = dayMs;

/** What a request is known again by. `operation`: method and path. `fingerprint`: a hash over its query and body. */
export interface Repeatable {
  accountId: string;
  operation: string;
  key: string;
  fingerprint: string;
}

/** An answer as it is kept: without what is shown only once. */
export interface KeptAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** Thrown by the commit where another request with the same key was first. Its answer is there to be read. */
export class AlreadyDone extends Error {}

const same = ({ accountId, operation, key }: Repeatable) =>
  and(eq(idempotencyKeys.accountId, accountId), eq(idempotencyKeys.operation, operation), eq(idempotencyKeys.key, key));

/** The answer that this request has had already, if it has. Throws `idempotency_key_reused` where the key came with something else. */
export async function readKept(db: Db, request: Repeatable, now: number): Promise<KeptAnswer | null> {
  const [kept] = await db
    .select()
    .from(idempotencyKeys)
    .where(and(same(request), gt(idempotencyKeys.createdAt, now - keptMs)));
  if (!kept) return null;
  if (kept.fingerprint !== request.fingerprint) {
    throw new Failure("idempotency_key_reused", "This Idempotency-Key was used for another request. Take a new one for each.", {
      faults: [{ header: "Idempotency-Key", code: "reused", detail: "The query or body differs from the first request's." }],
    });
  }
  return kept;
}

/**
 * A commit that writes the final answer in the change's own batch, first: either both happen or neither. Of two requests
 * with one key, the later fails on the primary key, and its change with it: that throws `AlreadyDone`.
 */
export const keepingCommit =
  <Result>(db: Db, wake: Wake, request: Repeatable, now: number, answerOf: (result: Result) => KeptAnswer): Commit =>
  async (change) => {
    const { status, headers, body } = answerOf(change.result as unknown as Result);
    const keep: [Statement, Statement] = [
      db.delete(idempotencyKeys).where(and(same(request), lte(idempotencyKeys.createdAt, now - keptMs))),
      raw(
        db,
        sql`INSERT INTO idempotency_keys (account_id, operation, key, fingerprint, status, headers, body, created_at)
        SELECT ${request.accountId}, ${request.operation}, ${request.key}, ${request.fingerprint}, ${status}, ${JSON.stringify(headers)}, ${body}, ${now}
        WHERE ${change.when ?? sql`true`}`,
      ),
    ];
    try {
      return await commitChange(db, wake, change, keep);
    } catch (error) {
      if (isDuplicate(error, "idempotency_keys.account_id"))
        throw new AlreadyDone("another request with this Idempotency-Key was first", { cause: error });
      throw error;
    }
  };

/** Forgets answers whose 24 hours are over. */
export const deleteExpiredAnswers = (db: Db, now: number) => db.delete(idempotencyKeys).where(lte(idempotencyKeys.createdAt, now - keptMs));
