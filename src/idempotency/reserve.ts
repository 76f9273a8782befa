import { and, eq, lte } from "drizzle-orm";
import { hashOf } from "../crypto/hash.ts";
import type { Db } from "../db/client.ts";
import { isDuplicate } from "../db/failures.ts";
import { Failure } from "../errors/failure.ts";
import { minuteMs } from "../time/clock.ts";
import { findStored, type IdempotentRequest, retentionMs, type StoredResponse } from "./store.ts";
import { idempotencyKeys } from "./tables.ts";

// Some operations do several writes, or none in D1. Their Idempotency-Key is reserved before they run, and their response is stored afterwards.

/** The status of a stored response whose request still runs. */
const running = 102;
/** The time after which a request without a response counts as broken off, in milliseconds. */
const brokenOffMs = 2 * minuteMs;

const ofRequest = ({ accountId, operation, key }: IdempotentRequest) =>
  and(eq(idempotencyKeys.accountId, accountId), eq(idempotencyKeys.operation, operation), eq(idempotencyKeys.keyHash, hashOf(key)));

/**
 * Reserves the Idempotency-Key of a request. Returns the stored response if the request was made before, or null if the caller may make it. Throws
 * `idempotency_key_reused` if the key belongs to another request, and `request_in_progress` if the same request still runs. Throws `conflict` if the
 * same request was broken off: nobody knows whether it took effect, so it does not run a second time.
 */
export async function reserve(db: Db, request: IdempotentRequest, now: number): Promise<StoredResponse | null> {
  const { accountId, operation, key, fingerprint } = request;
  const row = { accountId, operation, keyHash: hashOf(key), fingerprint, status: running, headers: {}, body: "", createdAt: now };
  await db.delete(idempotencyKeys).where(and(ofRequest(request), lte(idempotencyKeys.createdAt, now - retentionMs)));
  try {
    await db.insert(idempotencyKeys).values(row);
    return null;
  } catch (error) {
    if (!isDuplicate(error, "idempotency_keys.account_id")) throw error;
  }
  const stored = await findStored(db, request, now);
  if (stored && stored.status !== running) return stored;
  if (stored && stored.createdAt <= now - brokenOffMs)
    throw new Failure(
      "conflict",
      "An earlier request with this Idempotency-Key was broken off. It may have taken effect. Check whether it did, then use a new Idempotency-Key.",
    );
  throw new Failure("request_in_progress", "A request with this Idempotency-Key is still running. Try again in a moment.", {
    headers: { "Retry-After": "1" },
  });
}

/** Stores the response of a request whose key is reserved. */
export const storeReserved = async (db: Db, request: IdempotentRequest, response: StoredResponse): Promise<void> => {
  await db.update(idempotencyKeys).set(response).where(ofRequest(request));
};

/** Ends a reservation, because the request has failed. The same key can then be used again. */
export const release = async (db: Db, request: IdempotentRequest): Promise<void> => {
  await db.delete(idempotencyKeys).where(and(ofRequest(request), eq(idempotencyKeys.status, running)));
};
