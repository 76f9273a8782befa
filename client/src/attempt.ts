import { TimeoutError } from "./errors.ts";

/** Sends one request. Rejects if no response arrives. */
export type Fetch = (request: Request) => Promise<Response>;

const withoutBody = [101, 204, 205, 304];
/** The longest delay that `setTimeout` supports, in milliseconds. */
const maxTimerMs = 2 ** 31 - 1;

/** Waits for a response and reads its whole body. If the connection breaks while the body arrives, the attempt fails. */
async function whole(responding: Promise<Response>): Promise<Response> {
  const response = await responding;
  // If a browser does not follow a redirect, the response has status 0. The `Response` constructor does not accept status 0.
  if (response.status === 0) return response;
  return new Response(withoutBody.includes(response.status) ? null : await response.arrayBuffer(), response);
}

/** Sends a request once. Rejects with a `TimeoutError` after `timeoutMs`. If the signal aborts, rejects with the reason of the signal. */
export async function sendOnce(send: Fetch, request: Request, timeoutMs: number): Promise<Response> {
  const attempt = new AbortController();
  const giveUp = () => attempt.abort(request.signal.reason);
  const timer = setTimeout(() => attempt.abort(new TimeoutError(timeoutMs)), Math.min(timeoutMs, maxTimerMs));
  const stopped = new Promise<never>((_, reject) => {
    attempt.signal.addEventListener("abort", () => reject(attempt.signal.reason), { once: true });
  });
  if (request.signal.aborted) giveUp();
  else request.signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([stopped, whole(send(new Request(request, { signal: attempt.signal })))]);
  } finally {
    clearTimeout(timer);
    request.signal.removeEventListener("abort", giveUp);
  }
}

/** Resolves after `ms` milliseconds. If the signal aborts, rejects with the reason of the signal. */
export const sleep = (ms: number, signal: AbortSignal) =>
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
