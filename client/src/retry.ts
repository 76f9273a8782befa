import { type Fetch, sendOnce, sleep } from "./attempt.ts";
import { ConnectionError, TimeoutError } from "./errors.ts";
import { secondsToWait } from "./problem.ts";

export interface RetryOptions {
  /** How often a request is sent again at most. 0: never. By default 2. */
  retries?: number;
  /** The longest that one attempt may take, its body included, in milliseconds. By default 30,000. */
  timeoutMs?: number;
  /** The longest that all attempts and the waits between them may take, in milliseconds. By default 120,000. */
  totalTimeoutMs?: number;
  /** The longest wait between two attempts, in milliseconds. If the service asks for a longer one, the call rejects at once. By default 60,000. */
  maxWaitMs?: number;
}

const firstWaitMs = 500;
const longestBackOffMs = 8_000;
/** The service or something before it failed: whether it acted is not known. */
const failed = [500, 502, 503, 504];
/** The service did nothing, and says in `Retry-After` when to try again: the same request still runs, or the limit is reached. */
const postponed = [409, 429];

/** Longer each time, and never the same for two clients that failed together. */
const backOffMs = (attempt: number) => Math.min(firstWaitMs * 2 ** attempt, longestBackOffMs) * (0.5 + Math.random() / 2);

/** Returns whether a request that may have arrived acts once though it is sent again. With a condition, the second would be told 412. */
const isRepeatable = ({ method, headers }: Request) =>
  method === "POST"
    ? headers.has("Idempotency-Key")
    : method === "GET" || method === "HEAD" || !(headers.has("If-Match") || headers.has("If-None-Match"));

/** Returns how long to wait before the next attempt, in milliseconds; undefined if there must be none. */
function waitAfter(request: Request, outcome: Response | Error, attempt: number): number | undefined {
  if (outcome instanceof Error) return isRepeatable(request) ? backOffMs(attempt) : undefined;
  const seconds = secondsToWait(outcome);
  if (postponed.includes(outcome.status)) return seconds === undefined ? undefined : seconds * 1000;
  if (!failed.includes(outcome.status) || !isRepeatable(request)) return undefined;
  return seconds === undefined ? backOffMs(attempt) : seconds * 1000;
}

/** Sends a request again while that can help and is safe. Every other response is returned as it came. */
export const retrying =
  (send: Fetch, { retries = 2, timeoutMs = 30_000, totalTimeoutMs = 120_000, maxWaitMs = 60_000 }: RetryOptions): Fetch =>
  async (request) => {
    const endsAt = Date.now() + totalTimeoutMs;
    let mayHaveActed = false;
    for (let attempt = 0; ; attempt++) {
      const outcome = await sendOnce(send, request.clone(), Math.min(timeoutMs, endsAt - Date.now())).catch((error: unknown) => {
        request.signal.throwIfAborted();
        return error instanceof TimeoutError ? error : new ConnectionError(error, attempt + 1);
      });
      // What an earlier attempt deleted is not there any more.
      if (mayHaveActed && request.method === "DELETE" && outcome instanceof Response && outcome.status === 404)
        return new Response(null, { status: 204, headers: outcome.headers });
      const waitMs = attempt < retries ? waitAfter(request, outcome, attempt) : undefined;
      if (waitMs === undefined || waitMs > maxWaitMs || Date.now() + waitMs >= endsAt) {
        if (outcome instanceof Error) throw outcome;
        return outcome;
      }
      mayHaveActed ||= outcome instanceof Error || failed.includes(outcome.status);
      await sleep(waitMs, request.signal);
    }
  };
