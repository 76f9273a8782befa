import { createMiddleware } from "hono/factory";
import { Failure } from "../errors/failure.ts";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { type Claim, claimBudget, grow, release } from "./body-budget.ts";
import type { AppContext, AppEnv, ReceivedBody } from "./context.ts";

export const maxBodyBytes = 64 * 1024;
/**
 * The maximum body size for public routes, in bytes. Requests to public routes have no key. Bodies of this size are so small that they do
 * not count toward the body budget.
 */
const maxPublicBodyBytes = 1024;
const firstBufferBytes = 4 * 1024;
export const maxWaitMs = 15 * secondMs;

/** `maxBytes`: the largest body. `ownerOf`: returns the id of the key or token whose bodies share a budget. */
interface BodyOptions {
  maxBytes: number;
  ownerOf: (c: AppContext) => string;
}

const noBody: ReceivedBody = { bytes: new Uint8Array(), failure: null };

/**
 * Receives the body of a request before its key is admitted. A key that is revoked while the body arrives is therefore denied. If receiving
 * the body fails, stores the failure. Reading the body later throws the stored failure.
 */
export const receiveBody = ({ maxBytes, ownerOf }: BodyOptions) =>
  createMiddleware<AppEnv>(async function receiveBody(c, next) {
    const policy = c.get("policy");
    // The body of a GET or HEAD request is ignored (RFC 9110, 9.3.1).
    const { method, body: stream } = c.req.raw;
    if (stream === null || policy?.takesBody === false || method === "GET" || method === "HEAD") {
      discardBody(c);
      c.set("body", noBody);
      return next();
    }
    const claim = policy?.isPublic ? null : claimBudget(ownerOf(c), Date.now());
    try {
      const body = await receive(c, claim ? maxBytes : maxPublicBodyBytes, claim);
      c.set("body", body);
      // The original stream is consumed. Replace it, so that later reads get the received bytes or the failure.
      c.req.raw = new Request(c.req.raw, { body: body.failure ? failing(body.failure) : body.bytes });
      await next();
    } finally {
      if (claim) release(claim);
    }
  });

/** Cancels the unread rest of the body. Otherwise the response would wait until the whole body has arrived. */
export const discardBody = (c: AppContext): void => void c.req.raw.body?.cancel().catch(() => {});

async function receive(c: AppContext, maxBytes: number, claim: Claim | null): Promise<ReceivedBody> {
  if (Number(c.req.header("Content-Length") ?? 0) > maxBytes) {
    discardBody(c);
    return { bytes: new Uint8Array(), failure: tooLarge(maxBytes) };
  }
  const reader = (c.req.raw.body as ReadableStream<Uint8Array>).getReader();
  const tooLate = () => new Failure("request_timeout", `The body did not arrive within ${maxWaitMs / secondMs} seconds.`);
  try {
    return { bytes: await withDeadline(readAll(reader, maxBytes, claim), maxWaitMs, tooLate), failure: null };
  } catch (error) {
    reader.cancel().catch(() => {});
    const brokenOff = new Failure("malformed_json", "The body ended before it was complete.", { cause: error });
    return { bytes: new Uint8Array(), failure: error instanceof Failure ? error : brokenOff };
  }
}

/** Reads a body into one growing buffer. A body that arrives in many small chunks therefore takes no more memory than any other body. */
async function readAll(reader: ReadableStreamDefaultReader<Uint8Array>, maxBytes: number, claim: Claim | null): Promise<Uint8Array> {
  let buffer = new Uint8Array(0);
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return buffer.subarray(0, length);
    if (length + value.byteLength > maxBytes) throw tooLarge(maxBytes);
    if (length + value.byteLength > buffer.byteLength) {
      const larger = Math.min(maxBytes, Math.max(2 * buffer.byteLength, length + value.byteLength, firstBufferBytes));
      if (claim && !grow(claim, larger))
        throw new Failure("unavailable", "The service is already reading as many bodies as it can for this key. Try again in a moment.");
      const next = new Uint8Array(larger);
      next.set(buffer.subarray(0, length));
      buffer = next;
    }
    buffer.set(value, length);
    length += value.byteLength;
  }
}

const tooLarge = (maxBytes: number) => new Failure("body_too_large", `A body may have at most ${maxBytes / 1024} KiB.`);

/** Returns a stream that throws the failure when it is read. */
const failing = (failure: Error) =>
  new ReadableStream({
    pull(controller) {
      controller.error(failure);
    },
  });
