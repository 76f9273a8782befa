import type { ReadContext } from "../accounts/actor.ts";
import type { ReceivedBody } from "../http/context.ts";
import { urlOf } from "../http/request-url.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import { runIdempotently } from "../outbox/idempotency/run-idempotently.ts";
import type { StoredResponse } from "../outbox/idempotency/store.ts";
import { commitTo, type Outbox, type WriteContext } from "../outbox/outbox.ts";
import { canonicalJsonOf } from "./canonical-json.ts";
import type { ApiContext, RouteContext } from "./context.ts";
import { actorOf, contextOf, outboxOf } from "./operation-contexts.ts";
import { respondJson } from "./respond.ts";

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

/** A POST that takes an Idempotency-Key. */
interface Post<Result, Body, Status> {
  /** Makes the change in one batch through the given outbox. */
  run: (outbox: Outbox) => Promise<Result>;
  respond: (result: Result) => PostResponse<Body, Status>;
  /** Runs before each replay. `first` is the stored body of the first response. Throws if this caller may not make the change. */
  beforeReplay: (first: Body) => Promise<void>;
}

/** Who sends a POST. `id`: the id of its account or token. `isCounted`: whether stored responses count towards the maximum of the account. */
interface Sender {
  id: string;
  isCounted: boolean;
  outbox: Outbox;
}

type PostContext = RouteContext & { get(name: "body"): ReceivedBody; req: { method: string } };

/**
 * Handles a POST of any surface. Requests with the same Idempotency-Key take effect only once. A repeated request gets the response to the first request.
 */
export async function runPost<Result, Body extends object, Status extends 200 | 201 | 202>(
  c: PostContext,
  { id, isCounted, outbox }: Sender,
  { run, respond: responseFor, beforeReplay }: Post<Result, Body, Status>,
) {
  const respond = ({ status, body, headers }: PostResponse<Body, Status>) => respondJson(c, body, status, headers);
  const key = idempotencyKeyIn(c);
  if (key === null) return respond(responseFor(await run(outbox)));
  const { pathname, search } = urlOf(c);
  const { bytes } = c.get("body");
  const fingerprint = hashOf(Buffer.concat([Buffer.from(`${search}\n`), Buffer.from(canonicalJsonOf(bytes) ?? bytes)]));
  const outcome = await runIdempotently({
    outbox,
    now: Date.now(),
    request: { accountId: id, operation: `${c.req.method} ${pathname}`, key, fingerprint, isCounted },
    run,
    toStore: (result: Result): StoredResponse => {
      const { status, body, stored = body, headers = {} } = responseFor(result);
      return { status, headers, body: JSON.stringify(stored) };
    },
  });
  if ("result" in outcome) return respond(responseFor(outcome.result));
  const { status, headers, body } = outcome.stored;
  const first = JSON.parse(body) as Body;
  await beforeReplay(first);
  return respond({ status: status as Status, body: first, headers: { ...headers, "Idempotent-Replayed": "true" } });
}

interface ApiPost<Result, Body, Status> extends Pick<Post<Result, Body, Status>, "respond"> {
  /**
   * Throws if the API key of a repeated request may not make this change. The first request may have used a different API key. `first` is
   * the stored body of the first response.
   */
  authorize?: (context: ReadContext, first: Body) => Promise<void> | void;
  run: (context: WriteContext) => Promise<Result>;
  /** Runs before each replay. Completes the work that follows the change, in case the first request was interrupted. */
  beforeReplay?: () => Promise<void>;
}

/** Handles a POST of an API key (`runPost`). */
export const runIdempotentPost = <Result, Body extends object, Status extends 200 | 201 | 202>(
  c: ApiContext,
  { authorize = () => {}, run, respond, beforeReplay = async () => {} }: ApiPost<Result, Body, Status>,
) =>
  runPost(
    c,
    { id: actorOf(c).accountId, isCounted: true, outbox: outboxOf(c) },
    {
      run: (outbox) => run(contextOf(c, commitTo(outbox))),
      respond,
      beforeReplay: async (first: Body) => {
        await authorize(contextOf(c), first);
        await beforeReplay();
      },
    },
  );
