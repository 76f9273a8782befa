import { createMiddleware } from "hono/factory";
import { Failure } from "../lib/errors/failure.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { Claim } from "./body-budget.ts";
import type { AppContext, AppEnv, ReceivedBody } from "./context.ts";

export const maxBodyBytes = 64 * 1024;
/**
 * The maximum body size for public routes, in bytes. Requests to public routes have no key. Bodies of this size are so small that they do
 * not count toward the body budget.
 */
const maxPublicBodyBytes = 1024;
/** The first bytes of a body. They are read before anything is known about its sender, and do not count toward a budget. */
const floorBytes = 4 * 1024;
export const maxWaitMs = 15 * secondMs;

/**
 * `maxBytes`: the largest body. `claimFor`: is called if a body is longer than 4 KiB. Opens a claim on a budget, or returns the response that denies the request,
 * whose body is then read no further.
 */
interface BodyOptions {
  maxBytes: number;
  claimFor: (c: AppContext) => Promise<Claim | Response> | Claim;
}

/** The sender of a body may not come in. */
class Denied extends Error {
  readonly response: Response;

  constructor(response: Response) {
    super("the request was denied while its body arrived");
    this.response = response;
  }
}

const noBody: ReceivedBody = { bytes: new Uint8Array(), failure: null };

/**
 * Receives the body of a request before its key is admitted. A key that is revoked while the body arrives is therefore denied. If receiving
 * the body fails, stores the failure. Reading the body later throws the stored failure.
 */
export const receiveBody = ({ maxBytes, claimFor }: BodyOptions) =>
  createMiddleware<AppEnv>(async function receiveBody(c, next) {
    const policy = c.get("policy");
    // The body of a GET or HEAD request is ignored (RFC 9110, 9.3.1).
    const { method, body: stream } = c.req.raw;
    if (stream === null || policy?.takesBody === false || method === "GET" || method === "HEAD") {
      discardBody(c);
      c.set("body", noBody);
      return next();
    }
    let claim: Claim | undefined;
    const open = async (): Promise<Claim> => {
      const opened = await claimFor(c);
      if (opened instanceof Response) throw new Denied(opened);
      claim = opened;
      return opened;
    };
    try {
      const body = await receive(c, policy?.isPublic ? maxPublicBodyBytes : maxBytes, open);
      c.set("body", body);
      // The original stream is consumed. Replace it, so that later reads get the received bytes or the failure.
      c.req.raw = new Request(c.req.raw, { body: body.failure ? failing(body.failure) : body.bytes });
      await next();
      return undefined;
    } catch (error) {
      if (error instanceof Denied) return error.response;
      throw error;
    } finally {
      claim?.release();
    }
  });

/** Cancels the unread rest of the body. Otherwise the response would wait until the whole body has arrived. */
export const discardBody = (c: AppContext): void => void c.req.raw.body?.cancel().catch(() => {});

async function receive(c: AppContext, maxBytes: number, open: () => Promise<Claim>): Promise<ReceivedBody> {
  const declared = Number(c.req.header("Content-Length") ?? 0);
  if (declared > maxBytes) {
    discardBody(c);
    return { bytes: new Uint8Array(), failure: tooLarge(maxBytes) };
  }
  const reader = (c.req.raw.body as ReadableStream<Uint8Array>).getReader();
  const tooLate = () => new Failure("request_timeout", `The body did not arrive within ${maxWaitMs / secondMs} seconds.`);
  try {
    return { bytes: await withDeadline(readAll(reader, { maxBytes, declared }, open), maxWaitMs, tooLate), failure: null };
  } catch (error) {
    reader.cancel().catch(() => {});
    if (error instanceof Denied) throw error;
    const brokenOff = new Failure("malformed_json", "The body ended before it was complete.", { cause: error });
    return { bytes: new Uint8Array(), failure: error instanceof Failure ? error : brokenOff };
  }
}

/** Reads a body into one growing buffer. A body that arrives in many small chunks therefore takes no more memory than any other body. */
async function readAll(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { maxBytes, declared }: { maxBytes: number; declared: number },
  open: () => Promise<Claim>,
): Promise<Uint8Array> {
  let claim: Claim | undefined;
  let buffer = new Uint8Array(0);
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return buffer.subarray(0, length);
    if (length + value.byteLength > maxBytes) throw tooLarge(maxBytes);
    if (length + value.byteLength > buffer.byteLength) {
      const needed = length + value.byteLength;
      // Claims what the body will need in the end, because other bodies may take the rest of the budget meanwhile.
      const undeclared = Math.min(maxBytes, Math.max(2 * buffer.byteLength, needed, maxBodyBytes));
      const larger = needed <= floorBytes ? floorBytes : Math.max(needed, declared || undeclared);
      if (larger > floorBytes) claim ??= await open();
      if (claim && !claim.grow(larger))
        throw new Failure(
          "unavailable",
          "The service is already reading as many bodies as it can for this account. Try again in a moment.",
        );
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
