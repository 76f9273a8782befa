import { Failure } from "../errors/failure.ts";
import type { Commit, Outbox } from "../webhooks/outbox.ts";
import { AlreadyDone, findStored, type StoredResponse, type StoringRequest, storingCommit } from "./store.ts";

/** A change that must happen only once, even if the client repeats the request. */
export interface IdempotentRun<Result> {
  outbox: Outbox;
  now: number;
  request: StoringRequest;
  /** Makes the change through the given commit, which stores the response in the same batch. */
  run: (commit: Commit) => Promise<Result>;
  /** Returns the response to store, without values that are shown only once. */
  toStore: (result: Result) => StoredResponse;
}

/**
 * Makes a change, or returns the stored response if the same request already made the change. If two identical requests run at once, only
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
    return { result: await run(storingCommit(outbox, request, now, toStore)) };
  } catch (error) {
    if (!(error instanceof AlreadyDone)) throw error;
    const first = await findStored(db, request, now);
    if (first) return { stored: first };
    throw new Failure("request_in_progress", "A request with this Idempotency-Key is still running. Try again in a moment.", {
      headers: { "Retry-After": "1" },
      cause: error,
    });
  }
}
