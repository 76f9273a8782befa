import { createMiddleware } from "hono/factory";
import { secondMs } from "../clock.ts";
import { Failure } from "../errors.ts";
import type { AppContext, AppEnv, ReceivedBody } from "./context.ts";

export const longestBodyBytes = 64 * 1024;
const longestWaitMs = 15 * secondMs;
/** Of all requests of an isolate, which has 128 MiB for everything. */
const mostHeldBytes = 16 * 1024 * 1024;

let heldBytes = 0;

/**
 * Reads the bytes of a body before the key is asked: so a key that is revoked while its body is on the way does nothing any more.
 * What is wrong with them is kept, and told in its turn (`requireBody`). A public route is bound by the same limits.
 */
export const receiveBody = createMiddleware<AppEnv>(async function receiveBody(c, next) {
  const policy = c.get("policy");
  if (c.req.raw.body === null || policy?.takesBody === false) {
    discardBody(c);
    c.set("body", { bytes: new Uint8Array(), failure: null });
    return next();
  }
  const held = new HeldBytes();
  try {
    const body = await receive(c, held);
    c.set("body", body);
    // The stream is used up: whoever reads the request again reads these bytes.
    if (body.bytes) c.req.raw = new Request(c.req.raw, { body: body.bytes });
    await next();
  } finally {
    held.release();
  }
});

async function receive(c: AppContext, held: HeldBytes): Promise<ReceivedBody> {
  try {
    return { bytes: await readLimited(c, held), failure: null };
  } catch (error) {
    if (error instanceof Failure) return { bytes: null, failure: error };
    return {
      bytes: null,
      failure: new Failure("malformed_json", "The body ended before all of it was there.", { cause: error }),
    };
  }
}

/** Says that nobody will read the body, or the rest of it: else the response waits for all of it to arrive. */
export const discardBody = (c: AppContext): void => void c.req.raw.body?.cancel().catch(() => {});

async function readLimited(c: AppContext, held: HeldBytes): Promise<Uint8Array> {
  if (Number(c.req.header("Content-Length") ?? 0) > longestBodyBytes) {
    discardBody(c);
    throw tooLarge();
  }
  const reader = (c.req.raw.body as ReadableStream<Uint8Array>).getReader();
  const deadline = deadlineAfter(longestWaitMs);
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), deadline.passed]);
      if (done) return Buffer.concat(chunks);
      length += value.byteLength;
      if (length > longestBodyBytes) throw tooLarge();
      held.add(value.byteLength);
      chunks.push(value);
    }
  } catch (error) {
    // The rest is read by nobody.
    reader.cancel().catch(() => {});
    throw error;
  } finally {
    deadline.clear();
  }
}

function deadlineAfter(ms: number): { passed: Promise<never>; clear: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const passed = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Failure("request_timeout", `The body was not there within ${ms / secondMs} seconds.`)), ms);
  });
  return { passed, clear: () => clearTimeout(timer) };
}

const tooLarge = () => new Failure("body_too_large", `A body may have ${longestBodyBytes / 1024} KiB at most.`);

/** What one request holds of the bodies of all. */
class HeldBytes {
  #bytes = 0;

  /** Throws `unavailable` where the isolate holds as much as it may. */
  add(bytes: number): void {
    if (heldBytes + bytes > mostHeldBytes)
      throw new Failure("unavailable", "The service holds as many bodies as it can just now. Try again in a moment.");
    heldBytes += bytes;
    this.#bytes += bytes;
  }

  release(): void {
    heldBytes -= this.#bytes;
    this.#bytes = 0;
  }
}
