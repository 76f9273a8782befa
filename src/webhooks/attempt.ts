import { secondMs } from "../time/clock.ts";
import { retryAfterMsOf } from "./schedule.ts";
import { signatureHeaders } from "./signature.ts";
import type { attempts } from "./tables.ts";

export const timeoutMs = 15 * secondMs;

/**
 * How many bytes of a response are kept. An attempt that succeeds is kept short: its delivery is charged for it in advance
 * (`includedAttemptBytes` in src/storage/storage.ts).
 */
const kept = { success: { body: 128, headers: 376 }, failure: { body: 16 * 1024, headers: 2 * 1024 } } as const;

export type AttemptError = (typeof attempts.error.enumValues)[number];

/** What came of one POST. `error` null: it was delivered. */
export interface Outcome {
  /** When it was begun, in Unix milliseconds. */
  at: number;
  status: number | null;
  durationMs: number;
  error: AttemptError | null;
  /** What to do about the error, in a sentence. */
  advice: string | null;
  responseBody: string;
  /** Whether the receiver sent more than `responseBody` has. */
  bodyIsCut: boolean;
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

const nothing = { status: null, responseBody: "", bodyIsCut: false, responseHeaders: {}, retryAfterMs: null };

/** An attempt that was not made, since the URL may not be called. */
export const refused = (reason: string, at: number): Outcome => ({
  ...nothing,
  at,
  durationMs: 0,
  error: "refused_url",
  advice: `${reason} Give the webhook another URL.`,
});

/** Signs an event and posts it, once. An answer of 2xx within 15 s delivers it; redirects are not followed. Never rejects. */
export async function attempt({ fetch, now }: Posting, { url, eventId, body, secrets }: Message): Promise<Outcome> {
  const at = now();
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const headers = {
      "Content-Type": "application/json",
      "User-Agent": "Developer-Overview",
      ...signatureHeaders(eventId, body, secrets, at),
    };
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
    const durationMs = now() - at;
    const { body: bodyBytes, headers: headersBytes } = response.ok ? kept.success : kept.failure;
    return {
      ...verdictOf(response),
      at,
      durationMs,
      ...(await beginningOf(response, signal, bodyBytes)),
      responseHeaders: headersOf(response, headersBytes),
      retryAfterMs: pauseOf(response, now()),
    };
  } catch (error) {
    const durationMs = now() - at;
    if (signal.aborted) {
      const advice = `There was no answer within ${timeoutMs / secondMs} seconds. Answer with 2xx first and do the work afterwards.`;
      return { ...nothing, at, durationMs, error: "timeout", advice };
    }
    console.log("a receiver could not be reached:", String(error));
    const advice =
      "No connection could be made, or it broke off. Check that the host's name resolves, that it listens and that its certificate is valid.";
    return { ...nothing, at, durationMs, error: "unreachable", advice };
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

/** The first `maxBytes` of a body, as text that takes no more than that. The rest is not read. What breaks off or takes too long ends there. */
async function beginningOf(
  { body }: Response,
  signal: AbortSignal,
  maxBytes: number,
): Promise<Pick<Outcome, "responseBody" | "bodyIsCut">> {
  if (body === null) return { responseBody: "", bodyIsCut: false };
  const reader = body.getReader();
  const late = new Promise<{ done: true; value?: undefined }>((resolve) => {
    signal.addEventListener("abort", () => resolve({ done: true }));
    if (signal.aborted) resolve({ done: true });
  });
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    while (length <= maxBytes) {
      const { done, value } = await Promise.race([reader.read(), late]);
      if (done) break;
      chunks.push(value);
      length += value.length;
    }
  } catch {
    // What has come until then is kept.
  }
  await reader.cancel().catch(() => {});
  // What is no text becomes replacement characters, of three bytes each. So does NUL, at which SQLite ends a text.
  const text = new TextDecoder().decode(Buffer.concat(chunks).subarray(0, maxBytes)).replaceAll("\0", "\ufffd");
  const encoded = Buffer.from(text);
  return { responseBody: firstBytes(encoded, maxBytes), bodyIsCut: length > maxBytes || encoded.length > maxBytes };
}

/** Text of at most `maxBytes`. A character that is cut in two is left out. */
const firstBytes = (encoded: Uint8Array, maxBytes: number): string =>
  new TextDecoder().decode(encoded.subarray(0, maxBytes), { stream: true });

/** The first headers that take no more than `maxBytes` as JSON. */
function headersOf({ headers }: Response, maxBytes: number): Record<string, string> {
  const first: [string, string][] = [];
  for (const header of headers) {
    if (Buffer.byteLength(JSON.stringify(Object.fromEntries([...first, header]))) > maxBytes) break;
    first.push(header);
  }
  return Object.fromEntries(first);
}
