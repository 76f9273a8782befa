import type { attempts } from "../../db/areas/webhooks/tables.ts";
import { brand } from "../../lib/settings.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { signatureHeaders } from "../subscriptions/signature.ts";
import { retryAfterMsOf } from "./schedule.ts";

export const timeoutMs = 15 * secondMs;

/**
 * The maximum size of the stored part of a response, in bytes. The stored part is shorter for a successful attempt than for a failed
 * attempt. The storage charge of each delivery already includes one successful attempt (`includedAttemptBytes` in manifest.ts).
 */
const maxStoredBytes = { success: { body: 128, headers: 376 }, failure: { body: 16 * 1024, headers: 2 * 1024 } } as const;

export type AttemptError = (typeof attempts.error.enumValues)[number];

/** The result of one POST. `error` is null if the event was delivered. */
export interface Outcome {
  /** The time when the attempt began, in milliseconds since the epoch. */
  at: number;
  status: number | null;
  durationMs: number;
  error: AttemptError | null;
  /** A sentence that says how to fix the error. Null if there is no error. */
  advice: string | null;
  responseBody: string;
  /** Whether the receiver sent more than `responseBody` contains. */
  bodyIsCut: boolean;
  responseHeaders: Record<string, string>;
  /** The delay that the receiver requested before the next attempt, in milliseconds. Null if the receiver requested no delay. */
  retryAfterMs: number | null;
}

export interface AttemptContext {
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

/** Returns the outcome for a webhook URL that is not allowed. No request is sent to such a URL. */
export const notAttempted = (reason: string, at: number): Outcome => ({
  ...nothing,
  at,
  durationMs: 0,
  error: "refused_url",
  advice: `${reason} Give the webhook another URL.`,
});

/**
 * Signs an event and sends it in one POST. A 2xx response within 15 s means that the event was delivered. Does not follow redirects. Never rejects.
 */
export async function attempt({ fetch, now }: AttemptContext, { url, eventId, body, secrets }: Message): Promise<Outcome> {
  const at = now();
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const headers = {
      "Content-Type": "application/json",
      "User-Agent": brand.userAgent,
      ...signatureHeaders(eventId, body, secrets, at),
    };
    const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
    const durationMs = now() - at;
    const { body: bodyBytes, headers: headersBytes } = response.ok ? maxStoredBytes.success : maxStoredBytes.failure;
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
      const advice = `There was no response within ${timeoutMs / secondMs} seconds. Respond with 2xx first, and process the event afterwards.`;
      return { ...nothing, at, durationMs, error: "timeout", advice };
    }
    console.log("a receiver could not be reached:", String(error));
    const advice =
      "The connection failed or was interrupted. Check that the host name resolves, that the host accepts connections, and that its certificate is valid.";
    return { ...nothing, at, durationMs, error: "unreachable", advice };
  }
}

function verdictOf({ status, ok }: Response): Pick<Outcome, "status" | "error" | "advice"> {
  if (ok) return { status, error: null, advice: null };
  if (status >= 300 && status < 400)
    return {
      status,
      error: "redirect",
      advice: "The receiver responded with a redirect, which is not followed. Register the target URL of the redirect instead.",
    };
  if (status === 410)
    return {
      status,
      error: "status",
      advice: "The receiver responded with 410 Gone, so the webhook was disabled. Enable the webhook when the receiver is available again.",
    };
  return { status, error: "status", advice: statusAdvice(status) };
}

/** Returns the sentence about a response whose status is not 2xx. */
export const statusAdvice = (status: number): string =>
  `The receiver responded with ${status}. The receiver must respond with 2xx as soon as it has the event. Check the log of the receiver for the cause.`;

const pauseOf = ({ status, headers }: Response, now: number) =>
  status === 429 || status === 503 ? retryAfterMsOf(headers.get("Retry-After"), now) : null;

/**
 * Returns the beginning of a body, as text of at most `maxBytes` bytes. Does not read the rest of the body. If the body breaks off or times
 * out, returns the part that arrived.
 */
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
    // Keep the part of the body that arrived before the error.
  }
  await reader.cancel().catch(() => {});
  // Bytes that are not valid UTF-8 become replacement characters of three bytes each. NUL characters are also replaced, because SQLite ends
  // a text at NUL.
  const text = new TextDecoder().decode(Buffer.concat(chunks).subarray(0, maxBytes)).replaceAll("\0", "\ufffd");
  const encoded = Buffer.from(text);
  return { responseBody: firstBytes(encoded, maxBytes), bodyIsCut: length > maxBytes || encoded.length > maxBytes };
}

/** Returns the beginning of a text, at most `maxBytes` bytes. If the limit would split a character, omits that character. */
const firstBytes = (encoded: Uint8Array, maxBytes: number): string =>
  new TextDecoder().decode(encoded.subarray(0, maxBytes), { stream: true });

/** Returns the first headers of a response, as many as fit into `maxBytes` bytes of JSON. */
function headersOf({ headers }: Response, maxBytes: number): Record<string, string> {
  const first: [string, string][] = [];
  for (const header of headers) {
    if (Buffer.byteLength(JSON.stringify(Object.fromEntries([...first, header]))) > maxBytes) break;
    first.push(header);
  }
  return Object.fromEntries(first);
}
