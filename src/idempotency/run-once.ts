import { Failure } from "../errors/failure.ts";
import type { Commit, Outbox } from "../webhooks/outbox.ts";
import { AlreadyDone, findStored, type StoredResponse, type StoringRequest, storingCommit } from "./store.ts";

/** A change that is made once for each request that is known again. */
export interface Once<Result> {
  outbox: Outbox;
  now: number;
  request: StoringRequest;
  /** Makes the change with the given commit, which stores the response with it. */
  run: (commit: Commit) => Promise<Result>;
  /** Returns the response to store: without what is shown only once. */
  toStore: (result: Result) => StoredResponse;
}

/**
 * Makes a change, or returns the response that was stored when this request made it before. Of two requests at once, one makes it. Throws
 * `idempotency_key_reused` and `request_in_progress`.
 */
export async function runOnce<Result>({
  outbox,
  now,
  request,
  run,
  toStore,
}: Once<Result>): Promise<{ result: Result } | { stored: StoredResponse }> {
  const { db } = outbox;
  const stored = await findStored(db, request, now);
  if (stored) return { stored };
  try {
    return { result: await run(storingCommit(outbox, request, now, toStore)) };
  } catch (error) {
    if (!(error instanceof AlreadyDone)) throw error;
    const first = await findStored(db, request, now);
    if (first) return { stored: first };
    throw new Failure("request_in_progress", "A request with this Idempotency-Key is running. Try again in a moment.", {
      headers: { "Retry-After": "1" },
      cause: error,
    });
  }
}
