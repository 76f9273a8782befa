import { type Fetch, sendOnce, sleep } from "./attempt.ts";
import { ConnectionError, TimeoutError } from "./errors.ts";
import { secondsToWait } from "./problem.ts";

export interface RetryOptions {
  /** The maximum number of retries of a request. Zero disables retries. Default: 2. */
  retries?: number;
  /** The time limit for one attempt and its response body, in milliseconds. Default: 30,000. */
  timeoutMs?: number;
  /** The total time limit for all attempts and waits, in milliseconds. Default: 120,000. */
  totalTimeoutMs?: number;
  /**
   * The longest wait between two attempts, in milliseconds. If the service asks for a longer wait, the call rejects immediately, without a retry.
   * Default: 60,000.
   */
  maxWaitMs?: number;
}

const firstWaitMs = 500;
const maxBackOffMs = 8_000;
/**
 * The HTTP statuses that report a failure of the service or of a proxy. After such a failure, the client does not know whether the request took
 * effect.
 */
const failed = [500, 502, 503, 504];
/**
 * A request with one of these HTTP statuses had no effect. 409 can mean that the same request is still running. 429 means that the limit is
 * reached. If a retry can help, the header `Retry-After` states when to retry.
 */
const postponed = [409, 429];

/**
 * Returns the wait before a retry, in milliseconds. The wait doubles with each attempt, up to 8 seconds. Random jitter prevents clients that
 * failed at the same time from retrying at the same time.
 */
const backOffMs = (attempt: number) => Math.min(firstWaitMs * 2 ** attempt, maxBackOffMs) * (0.5 + Math.random() / 2);

/**
 * Returns whether a request takes effect only once if the service receives the request twice. A PATCH or DELETE with a condition is not
 * repeatable. If the first attempt succeeds, the second attempt gets status 412.
 */
const isRepeatable = ({ method, headers }: Request) =>
  method === "POST"
    ? headers.has("Idempotency-Key")
    : method === "GET" || method === "HEAD" || !(headers.has("If-Match") || headers.has("If-None-Match"));

/** Returns the wait before the next attempt, in milliseconds. If the request must not be retried, returns undefined. */
function waitAfter(request: Request, outcome: Response | Error, attempt: number): number | undefined {
  if (outcome instanceof Error) return isRepeatable(request) ? backOffMs(attempt) : undefined;
  const seconds = secondsToWait(outcome);
  if (postponed.includes(outcome.status)) return seconds === undefined ? undefined : seconds * 1000;
  if (!failed.includes(outcome.status) || !isRepeatable(request)) return undefined;
  return seconds === undefined ? backOffMs(attempt) : seconds * 1000;
}

/**
 * Returns a `fetch` function. If a retry is safe and can help, the function retries the request. Otherwise, the function returns the response
 * unchanged, or throws the error of the last attempt.
 */
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
      // An earlier attempt probably deleted the resource, so status 404 counts as success.
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
