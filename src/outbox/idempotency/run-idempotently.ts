import { Failure } from "../../lib/errors/failure.ts";
import type { Outbox } from "../outbox.ts";
import { findStored, isAlreadyDone, type StoredResponse, type StoringRequest, storingOutbox } from "./store.ts";

/** A change that must happen only once, even if the client repeats the request. */
export interface IdempotentRun<Result> {
  outbox: Outbox;
  now: number;
  request: StoringRequest;
  /** Makes the change in one batch through the given outbox, which stores the response in the same batch. */
  run: (outbox: Outbox) => Promise<Result>;
  /** Returns the response to store, without values that are shown only once. */
  toStore: (result: Result) => StoredResponse;
}

/**
 * Makes a change, or returns the stored response if the same request already made the change. If two identical requests run at the same time, only
 * one of them makes the change. Throws `idempotency_key_reused` if the Idempotency-Key was used for a different request. Throws
 * `request_in_progress` if an identical request was first and its response is not available yet.
 */
export async function runIdempotently<Result>({
  outbox,
  now,
  request,
  run,
  toStore,
}: IdempotentRun<Result>): Promise<{ result: Result } | { stored: StoredResponse }> {
  const { db } = outbox;
  const stored = await findStored(db, request, now);
  if (stored) return { stored };
  try {
    return { result: await run(storingOutbox(outbox, request, now, toStore)) };
  } catch (error) {
    if (!isAlreadyDone(error)) throw error;
    const first = await findStored(db, request, now);
    if (first) return { stored: first };
    throw new Failure("request_in_progress", "A request with this Idempotency-Key is still running. Try again in a moment.", {
      headers: { "Retry-After": "1" },
      cause: error,
    });
  }
}
