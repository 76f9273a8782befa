import { and, eq, gt, lte, type SQL, sql } from "drizzle-orm";
import { idempotencyKeys } from "../../db/areas/idempotency/tables.ts";
import type { Db, Statement } from "../../db/client.ts";
import { deleteInChunks } from "../../db/delete-in-chunks.ts";
import { isDuplicate } from "../../db/failures.ts";
import { insertWhere } from "../../db/insert-where.ts";
import { hashOf } from "../../lib/crypto/hash.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { dayMs } from "../../lib/time/clock.ts";
import type { Outbox } from "../outbox.ts";

export const retentionMs = dayMs;

/**
 * Identifies a request, so that a retry is recognized. `operation` is the method and the path. `fingerprint` is a hash of the query and the
 * body. The body is hashed as canonical JSON.
 */
export interface IdempotentRequest {
  accountId: string;
  operation: string;
  key: string;
  fingerprint: string;
}

/** A stored response, without values that are shown only once. */
export interface StoredResponse {
  status: number;
  headers: Record<string, string>;
  body: string;
}

const ofRequest = ({ accountId, operation, key }: IdempotentRequest) =>
  and(eq(idempotencyKeys.accountId, accountId), eq(idempotencyKeys.operation, operation), eq(idempotencyKeys.keyHash, hashOf(key)));

/**
 * Returns the stored response of a request, or null if no response is stored. Throws `idempotency_key_reused` if the Idempotency-Key was
 * used for a different request.
 */
export async function findStored(db: Db, request: IdempotentRequest, now: number): Promise<StoredResponse | null> {
  const [stored] = await db
    .select()
    .from(idempotencyKeys)
    .where(and(ofRequest(request), gt(idempotencyKeys.createdAt, now - retentionMs)));
  if (!stored) return null;
  if (stored.fingerprint !== request.fingerprint) {
    throw new Failure(
      "idempotency_key_reused",
      "This Idempotency-Key was already used for another request. Use a new value for each new request.",
      {
        fieldErrors: [
          {
            header: "Idempotency-Key",
            code: "reused",
            detail: "Must be a new value, because the query or body differs from the first request.",
          },
        ],
      },
    );
  }
  return stored;
}

/** A request whose response is stored. `isCounted` is true if the response counts towards the account's maximum of stored responses. */
export interface StoringRequest extends IdempotentRequest {
  isCounted: boolean;
}

/**
 * Returns an outbox that stores the response in the same batch as the change. Either the change and the response are both written, or neither is. If two requests
 * have the same Idempotency-Key, the insert of the later request violates the primary key, and D1 rolls back the later change.
 */
export const storingOutbox = <Result>(
  outbox: Outbox,
  request: StoringRequest,
  now: number,
  responseFor: (result: Result) => StoredResponse,
): Outbox => ({
  ...outbox,
  alongside: ({ result, when, whenFull = "deny" }) => ({
    statements: storeResponse(outbox.db, request, responseFor(result as Result), now, when),
    adds: request.isCounted && whenFull === "deny" ? [{ accountId: request.accountId, what: "idempotencyKeys" }] : [],
  }),
});

/** Returns whether a change failed because another request with the same Idempotency-Key committed first. */
export const isAlreadyDone = (error: unknown): boolean => isDuplicate(error, "idempotency_keys.account_id");

function storeResponse(db: Db, request: IdempotentRequest, response: StoredResponse, now: number, when: SQL = sql`true`): Statement[] {
  const { accountId, operation, key, fingerprint } = request;
  return [
    db.delete(idempotencyKeys).where(and(ofRequest(request), lte(idempotencyKeys.createdAt, now - retentionMs))),
    insertWhere(db, idempotencyKeys, { accountId, operation, keyHash: hashOf(key), fingerprint, ...response, createdAt: now }, when),
  ];
}

/**
 * Deletes up to `atMost` responses that were stored at least 24 hours ago. Reads the oldest rows first, by row id, so the table needs no
 * index on `created_at`. Returns the number of deleted responses.
 */
export const deleteOldResponses = (db: Db, now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM idempotency_keys WHERE rowid IN
      (SELECT rowid FROM (SELECT rowid, created_at FROM idempotency_keys ORDER BY rowid LIMIT ${limit}) WHERE created_at <= ${now - retentionMs})`,
  );
