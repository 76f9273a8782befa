import type { ReadContext } from "../accounts/actor.ts";
import { hashOf } from "../crypto/hash.ts";
import { Failure } from "../errors/failure.ts";
import { urlOf } from "../http/request-url.ts";
import { runIdempotently as runOnceFor } from "../idempotency/run-idempotently.ts";
import type { IdempotentRequest, StoredResponse } from "../idempotency/store.ts";
import type { WriteContext } from "../webhooks/outbox.ts";
import { canonicalJsonOf } from "./canonical-json.ts";
import type { ApiContext, RouteContext } from "./context.ts";
import { actorOf, outboxOf, readContext, writeContext } from "./operation-contexts.ts";
import { respondJson } from "./respond.ts";

/** The pattern of a valid Idempotency-Key. */
export const idempotencyKeyPattern = "^[\\x20-\\x7e]{1,255}$";
const idempotencyKey = new RegExp(idempotencyKeyPattern);

/** Returns the Idempotency-Key, or null if the header is absent. Throws `invalid_header`. */
export function idempotencyKeyIn(c: Pick<RouteContext, "req">): string | null {
  const value = c.req.header("Idempotency-Key");
  if (value === undefined) return null;
  if (!idempotencyKey.test(value)) {
    throw new Failure("invalid_header", "The value of the header Idempotency-Key is not valid.", {
      fieldErrors: [{ header: "Idempotency-Key", code: "invalid_format", detail: "Must be 1 to 255 printable ASCII characters." }],
    });
  }
  return value;
}

/**
 * The response to a POST. The first request gets `body`. A repeated request with the same Idempotency-Key gets `stored`, which defaults to `body`.
 */
export interface PostResponse<Body, Status> {
  status: Status;
  body: Body;
  stored?: Body;
  headers?: Record<string, string>;
}

interface Post<Result, Body, Status> {
  /**
   * Throws if the API key of a repeated request may not make this change. The first request may have used a different API key. `first` is
   * the stored body of the first response.
   */
  authorize?: (context: ReadContext, first: Body) => Promise<void> | void;
  run: (context: WriteContext) => Promise<Result>;
  respond: (result: Result) => PostResponse<Body, Status>;
  /** Runs before each replay. Completes the work that follows the change, in case the first request was interrupted. */
  beforeReplay?: () => Promise<void>;
}

/**
 * Handles a POST. Requests with the same Idempotency-Key take effect only once. A repeated request gets the response to the first request.
 */
export async function runIdempotentPost<Result, Body extends object, Status extends 200 | 201 | 202>(
  c: ApiContext,
  { authorize = () => {}, run, respond: responseFor, beforeReplay = async () => {} }: Post<Result, Body, Status>,
) {
  const respond = ({ status, body, headers }: PostResponse<Body, Status>) => respondJson(c, body, status, headers);
  const replay = async ({ status, headers, body }: StoredResponse) => {
    const first = JSON.parse(body) as Body;
    await authorize(readContext(c), first);
    await beforeReplay();
    return respond({ status: status as Status, body: first, headers: { ...headers, "Idempotent-Replayed": "true" } });
  };

  const request = idempotentRequest(c);
  if (!request) return respond(responseFor(await run(writeContext(c))));
  const toStore = (result: Result): StoredResponse => {
    const { status, body, stored = body, headers = {} } = responseFor(result);
    return { status, headers, body: JSON.stringify(stored) };
  };
  const context = readContext(c);
  const outcome = await runOnceFor({
    outbox: outboxOf(c),
    now: context.now,
    request: { ...request, isCounted: true },
    run: (commit) => run({ ...context, commit }),
    toStore,
  });
  return "stored" in outcome ? replay(outcome.stored) : respond(responseFor(outcome.result));
}

function idempotentRequest(c: ApiContext): IdempotentRequest | null {
  const key = idempotencyKeyIn(c);
  if (key === null) return null;
  const { pathname, search } = urlOf(c);
  const { bytes } = c.get("body");
  const hashWith = (body: string | Uint8Array) => hashOf(Buffer.concat([Buffer.from(`${search}\n`), Buffer.from(body)]));
  return {
    accountId: actorOf(c).accountId,
    operation: `${c.req.method} ${pathname}`,
    key,
    fingerprint: hashWith(canonicalJsonOf(bytes) ?? bytes),
    fingerprintOfBytes: hashWith(bytes),
  };
}
