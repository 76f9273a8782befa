import { secondsToWait } from "./problem.ts";

export interface RetryOptions {
  /** How often a request is sent again at most. 0: never. By default 2. */
  retries?: number;
  /** The longest wait between two attempts, in milliseconds. What asks for a longer one is answered as it came. By default a minute. */
  maxWaitMs?: number;
}

type Fetch = (request: Request) => Promise<Response>;

const firstWaitMs = 500;
/** With these the service may say when to try again: the request is still running, the limit is reached, storage does not answer. */
const retried = [409, 429, 503];

/** Waits, unless the request is given up meanwhile. */
const sleep = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve, reject) => {
    const giveUp = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", giveUp);
      resolve();
    }, ms);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp, { once: true });
  });

/** Longer each time, and never the same for two clients that failed together. */
const backOffMs = (attempt: number) => firstWaitMs * 2 ** attempt * (0.5 + Math.random() / 2);

/**
 * Whether a request may be sent again where nobody knows if it arrived. A POST acts once by its key. Repeated, a DELETE would find nothing, and
 * what carries If-Match another version.
 */
const isRepeatable = ({ method, headers }: Request) =>
  method === "POST" ? headers.has("Idempotency-Key") : method !== "DELETE" && !headers.has("If-Match");

/** Sends a request again as long as the service asks for. Everything else is answered as it came. */
export const retrying =
  (send: Fetch, { retries = 2, maxWaitMs = 60_000 }: RetryOptions): Fetch =>
  async (request) => {
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt >= retries;
      let response: Response;
      try {
        response = await send(request.clone());
      } catch (error) {
        if (isLast || !isRepeatable(request) || request.signal.aborted) throw error;
        await sleep(backOffMs(attempt), request.signal);
        continue;
      }
      const seconds = secondsToWait(response);
      if (isLast || seconds === undefined || !retried.includes(response.status) || seconds * 1000 > maxWaitMs) return response;
      await response.body?.cancel();
      await sleep(seconds * 1000, request.signal);
    }
  };
