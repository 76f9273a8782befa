import type { Writing } from "../accounts/actor.ts";
import { connect } from "../db/client.ts";
import { Failure } from "../errors.ts";
import { hashOf } from "../hash.ts";
import { AlreadyDone, type KeptAnswer, keepingCommit, type Repeatable, readKept } from "../idempotency/kept-answers.ts";
import { commitTo, type Wake } from "../webhooks/commit.ts";
import { wakeDeliveries } from "../webhooks/wake.ts";
import { type ApiContext, actorOf, callOf } from "./context.ts";
import { idempotencyKeyIn } from "./request-headers.ts";
import { sendJson } from "./send.ts";

/** Sets deliveries off once the answer has gone. */
export const wakeOf =
  (c: ApiContext): Wake =>
  (due) => {
    if (due.length > 0) c.executionCtx.waitUntil(wakeDeliveries(c.env.DELIVERIES, due));
  };

/** What a verb that writes takes, where nothing is to be kept with its change. */
export function writing(c: ApiContext): Writing {
  const db = connect(c.env.DB);
  return { db, actor: actorOf(c), now: callOf(c).startedAt, commit: commitTo(db, wakeOf(c)) };
}

/** How a POST answers: `body` to the one who asked, `kept` (by default the same) to one who asks again with the same key. */
export interface PostAnswer<Body, Status> {
  status: Status;
  body: Body;
  kept?: Body;
  headers?: Record<string, string>;
}

/**
 * Runs a verb for a POST, once for each Idempotency-Key: a repetition is answered with what the first got, and has no effect.
 * `beforeReplay`: what the first may have left to do besides its change.
 */
export async function answerPost<Result, Body extends object, Status extends 200 | 201 | 202>(
  c: ApiContext,
  verb: (writing: Writing) => Promise<Result>,
  answerOf: (result: Result) => PostAnswer<Body, Status>,
  beforeReplay: () => Promise<void> = async () => {},
) {
  const send = ({ status, body, headers }: PostAnswer<Body, Status>) => sendJson(c, body, status, headers);
  const replay = async ({ status, headers, body }: KeptAnswer) => {
    await beforeReplay();
    return send({ status: status as Status, body: JSON.parse(body) as Body, headers: { ...headers, "Idempotent-Replayed": "true" } });
  };

  const request = repeatableOf(c);
  const plain = writing(c);
  if (!request) return send(answerOf(await verb(plain)));

  const { db, now } = plain;
  const kept = await readKept(db, request, now);
  if (kept) return replay(kept);
  const keep = (result: Result): KeptAnswer => {
    const { status, body, kept: toKeep = body, headers = {} } = answerOf(result);
    return { status, headers, body: JSON.stringify(toKeep) };
  };
  try {
    return send(answerOf(await verb({ ...plain, commit: keepingCommit(db, wakeOf(c), request, now, keep) })));
  } catch (error) {
    if (!(error instanceof AlreadyDone)) throw error;
    const winner = await readKept(db, request, now);
    if (!winner)
      throw new Failure("request_in_progress", "A request with this Idempotency-Key is running. Try again in a moment.", { cause: error });
    return replay(winner);
  }
}

function repeatableOf(c: ApiContext): Repeatable | null {
  const key = idempotencyKeyIn(c);
  if (key === null) return null;
  const { pathname, search } = new URL(c.req.url);
  return {
    accountId: actorOf(c).accountId,
    operation: `${c.req.method} ${pathname}`,
    key,
    fingerprint: hashOf(`${search}\n${callOf(c).bodyText ?? ""}`),
  };
}
