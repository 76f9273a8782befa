import type { RecognizedKey } from "./context.ts";
import { rateLimitHeadersOf } from "./rate-limit-headers.ts";
import type { Finish } from "./request-context.ts";

/** What a response is made of, and known by, beside what its handler says: the part of the context of any transport. */
export interface Responding {
  get(name: "recognized"): RecognizedKey | undefined;
  get(name: "requestId"): string;
  get(name: "transportHeaders"): Record<string, string>;
  set(name: "complete", response: Response): void;
}

/**
 * Makes a response with the headers of all: those of its transport, the request id, the key's limit where one was recognised, and how long it may
 * be kept. To make it with them costs a third of what it costs to set them one by one.
 */
export function respond(c: Responding, body: string | Uint8Array | null, status: number, headers: Record<string, string>): Response {
  const response = new Response(body, { status, headers: { ...headers, ...standardHeadersOf(c, "ETag" in headers) } });
  c.set("complete", response);
  return response;
}

/** Puts the headers of all onto a response that was made without them, whoever made it. */
export const standardHeaders: Finish = (c) => {
  // The headers of a WebSocket's handshake are not ours.
  if (c.res === c.get("complete") || c.res.status === 101) return;
  setHeaders(standardHeadersOf(c, c.res.headers.has("ETag")))(c);
};

/** Sets headers of a response, in place of those of the same names. */
export const setHeaders =
  (headers: Record<string, string>): Finish =>
  (c) => {
    const set = () => {
      for (const [name, value] of Object.entries(headers)) c.res.headers.set(name, value);
    };
    try {
      set();
    } catch {
      // Those of a response of `fetch`, and of `Response.redirect`, do not change.
      c.res = new Response(c.res.body, c.res);
      set();
    }
  };

function standardHeadersOf(c: Responding, hasEtag: boolean): Record<string, string> {
  const recognized = c.get("recognized");
  return {
    ...c.get("transportHeaders"),
    "X-Request-Id": c.get("requestId"),
    "Cache-Control": hasEtag ? "private, no-cache" : "no-store",
    ...(recognized && rateLimitHeadersOf(recognized.admission.rateLimit, Date.now())),
  };
}
