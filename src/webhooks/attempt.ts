import { secondMs } from "../clock.ts";
import type { attempts } from "../db/schema-main.ts";
import { retryAfterMsOf } from "./schedule.ts";
import { signatureHeaders } from "./signature.ts";

export const timeoutMs = 15 * secondMs;
const longestBody = 16 * 1024;
const longestHeaders = 8 * 1024;

export type AttemptError = (typeof attempts.error.enumValues)[number];

/** What came of one POST. `error` null: it was delivered. */
export interface Outcome {
  status: number | null;
  durationMs: number;
  error: AttemptError | null;
  /** What to do about the error, in a sentence. */
  advice: string | null;
  responseBody: string;
  responseHeaders: Record<string, string>;
  /** How long the receiver asks to be left alone. */
  retryAfterMs: number | null;
}

export interface Posting {
  fetch: typeof fetch;
  now: () => number;
}

export interface Message {
  url: string;
  eventId: string;
  body: string;
  secrets: readonly string[];
}

const nothing = { status: null, responseBody: "", responseHeaders: {}, retryAfterMs: null };

/** An attempt that was not made, since the URL may not be called. */
export const refused = (reason: string): Outcome => ({
  ...nothing,
  durationMs: 0,
  error: "refused_url",
  advice: `${reason} Give the webhook another URL.`,
});

/** Signs an event and posts it, once. An answer of 2xx within 15 s delivers it; redirects are not followed. Never rejects. */
export async function attempt({ fetch, now }: Posting, { url, eventId, body, secrets }: Message): Promise<Outcome> {
  const startedAt = now();
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const headers = {
      "Content-Type": "application/json",
      "User-Agent": "Developer-Overview",
      ...signatureHeaders(eventId, body, secrets, startedAt),
    };
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
    const durationMs = now() - startedAt;
    const responseBody = await beginningOf(response, signal);
    return {
      ...verdictOf(response),
      durationMs,
      responseBody,
      responseHeaders: headersOf(response),
      retryAfterMs: pauseOf(response, now()),
    };
  } catch (error) {
    const durationMs = now() - startedAt;
    if (signal.aborted) {
      const advice = `There was no answer within ${timeoutMs / secondMs} seconds. Answer with 2xx first and do the work afterwards.`;
      return { ...nothing, durationMs, error: "timeout", advice };
    }
    console.log("a receiver could not be reached:", String(error));
    const advice =
      "No connection could be made, or it broke off. Check that the host's name resolves, that it listens and that its certificate is valid.";
    return { ...nothing, durationMs, error: "unreachable", advice };
  }
}

function verdictOf({ status, ok }: Response): Pick<Outcome, "status" | "error" | "advice"> {
  if (ok) return { status, error: null, advice: null };
  if (status >= 300 && status < 400)
    return {
      status,
      error: "redirect",
      advice: "The receiver answered with a redirect, which is not followed. Register the URL that it leads to.",
    };
  if (status === 410)
    return { status, error: "status", advice: "The receiver answered 410 Gone, so the webhook was disabled. Enable it when it is back." };
  return {
    status,
    error: "status",
    advice: `The receiver answered ${status}. Make it answer with 2xx once it has the event; its log should say what went wrong.`,
  };
}

const pauseOf = ({ status, headers }: Response, now: number) =>
  status === 429 || status === 503 ? retryAfterMsOf(headers.get("Retry-After"), now) : null;

/** The first 16 KiB of a body, as text; the rest is not read. What breaks off or takes too long ends there. */
async function beginningOf({ body }: Response, signal: AbortSignal): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const late = new Promise<{ done: true; value?: undefined }>((resolve) => {
    signal.addEventListener("abort", () => resolve({ done: true }));
    if (signal.aborted) resolve({ done: true });
  });
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    while (length < longestBody) {
      const { done, value } = await Promise.race([reader.read(), late]);
      if (done) break;
      chunks.push(value);
      length += value.length;
    }
  } catch {
    // What has come until then is kept.
  }
  await reader.cancel().catch(() => {});
  return new TextDecoder().decode(Buffer.concat(chunks).subarray(0, longestBody));
}

function headersOf({ headers }: Response): Record<string, string> {
  let left = longestHeaders;
  const kept: [string, string][] = [];
  for (const [name, value] of headers) {
    left -= name.length + value.length;
    if (left < 0) break;
    kept.push([name, value]);
  }
  return Object.fromEntries(kept);
}
