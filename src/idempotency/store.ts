import { and, eq, gt, lte, type SQL, sql } from "drizzle-orm";
import { hashOf } from "../crypto/hash.ts";
import type { Db, Statement } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { isDuplicate } from "../db/failures.ts";
import { insertWhere } from "../db/insert-where.ts";
import { Failure } from "../errors/failure.ts";
import { dayMs } from "../time/clock.ts";
import { type Commit, commitChange, type Outbox } from "../webhooks/outbox.ts";
import { idempotencyKeys } from "./tables.ts";

export const keptMs = dayMs;

/** What a request is known again by. `operation`: method and path. `fingerprint`: a hash over its query and its body as canonical JSON. */
export interface IdempotentRequest {
  accountId: string;
  operation: string;
  key: string;
  fingerprint: string;
  /** A hash over its query and the bytes of its body: what version 0.2.0 stored, which may have stored the first request. */
  fingerprintOfBytes?: string;
}

/** A response as it is stored: without what is shown only once. */
export interface StoredResponse {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** Thrown by the commit where another request with the same key was first. Its response is there to be read. */
export class AlreadyDone extends Error {}

const ofRequest = ({ accountId, operation, key }: IdempotentRequest) =>
  and(eq(idempotencyKeys.accountId, accountId), eq(idempotencyKeys.operation, operation), eq(idempotencyKeys.keyHash, hashOf(key)));

/** The response that this request has had already, if it has. Throws `idempotency_key_reused` where the key came with something else. */
export async function findStored(db: Db, request: IdempotentRequest, now: number): Promise<StoredResponse | null> {
  const [stored] = await db
    .select()
    .from(idempotencyKeys)
    .where(and(ofRequest(request), gt(idempotencyKeys.createdAt, now - keptMs)));
  if (!stored) return null;
  if (stored.fingerprint !== request.fingerprint && stored.fingerprint !== request.fingerprintOfBytes) {
    throw new Failure("idempotency_key_reused", "This Idempotency-Key was used for another request. Take a new one for each.", {
      faults: [{ header: "Idempotency-Key", code: "reused", detail: "The query or body differs from the first request's." }],
    });
  }
  return stored;
}

/** What a response is stored for. `isCounted`: whether it counts towards the responses that an account may store. */
export interface StoringRequest extends IdempotentRequest {
  isCounted: boolean;
}

/**
 * A commit that writes the final response in the change's own batch, first: either both happen or neither. Of two requests
 * with one key, the later fails on the primary key, and its change with it: that throws `AlreadyDone`.
 */
export const storingCommit =
  <Result>(outbox: Outbox, request: StoringRequest, now: number, responseFor: (result: Result) => StoredResponse): Commit =>
  async (change) => {
    const response = responseFor(change.result as unknown as Result);
    try {
      const isBounded = request.isCounted && !change.evenWhereFull;
      const kept = isBounded ? [{ accountId: request.accountId, what: "idempotencyKeys" as const }] : [];
      const adds = [...(change.adds ?? []), ...kept];
      return await commitChange(outbox, { ...change, adds }, storeResponse(outbox.db, request, response, now, change.when));
    } catch (error) {
      if (isDuplicate(error, "idempotency_keys.account_id"))
        throw new AlreadyDone("another request with this Idempotency-Key was first", { cause: error });
      throw error;
    }
  };

function storeResponse(db: Db, request: IdempotentRequest, response: StoredResponse, now: number, when: SQL = sql`true`): Statement[] {
  const { accountId, operation, key, fingerprint } = request;
  return [
    db.delete(idempotencyKeys).where(and(ofRequest(request), lte(idempotencyKeys.createdAt, now - keptMs))),
    insertWhere(db, idempotencyKeys, { accountId, operation, keyHash: hashOf(key), fingerprint, ...response, createdAt: now }, when),
  ];
}

/**
 * Deletes responses whose 24 hours are over, at most `atMost`. Rows are read in the order in which they were stored. So only the last ones
 * read stay, and no index is paid for. Answers how many went.
 */
export const deleteOldResponses = (db: Db, now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM idempotency_keys WHERE rowid IN
      (SELECT rowid FROM (SELECT rowid, created_at FROM idempotency_keys ORDER BY rowid LIMIT ${limit}) WHERE created_at <= ${now - keptMs})`,
  );
