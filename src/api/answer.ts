import type { Next } from "hono";
import { createMiddleware } from "hono/factory";
import { newId } from "../ids.ts";
import { admit, type PresentedKey, presentedKey } from "./admit.ts";
import { readBody } from "./body.ts";
import { type ApiContext, type ApiEnv, type Call, placeIn } from "./context.ts";
import type { Operations } from "./operations.ts";
import { failureOf, problemAnswer } from "./problem.ts";
import { record } from "./record.ts";
import { checkHeaders } from "./request-headers.ts";
import { refuseQuery } from "./validation.ts";

/**
 * The way of every request of the API: its id and clock, the key's admission and what else holds for all operations, the
 * handler, the entry in the log. One middleware, since each costs as much as a hash.
 */
export const answer = (operations: Operations, { isLocal }: { isLocal: boolean }) =>
  createMiddleware<ApiEnv>((c, next) => {
    const startedAt = Date.now();
    const call: Call = {
      requestId: newId("req", startedAt),
      startedAt,
      operation: operations.of(c),
      place: placeIn(c.req.url),
      isLocal,
      recognized: null,
      errorCode: null,
      bodyText: null,
    };
    c.set("call", call);
    const key = call.operation.needsKey ? presentedKey(c) : null;
    // Answered before anything is waited for, since this is what a flood is made of.
    if (key?.keyId === null) return Promise.resolve(problemAnswer(c, key.refusal));
    return run(c, call, key, next);
  });

/** `key`: null for an open operation. */
async function run(c: ApiContext, call: Call, key: PresentedKey | null, next: Next): Promise<void> {
  const { operation } = call;
  try {
    const refusal = key && (await admit(c, call, key));
    if (refusal) c.res = refusal;
    else {
      if (operation.mediaTypes.length > 0) await readBody(c, operation);
      checkHeaders(c, operation.headers);
      if (!operation.takesQuery) refuseQuery(c);
      await next();
    }
  } catch (error) {
    // What stands before the handler. What a handler throws is answered by the app's onError, below `next`.
    c.res = problemAnswer(c, failureOf(error));
  }
  if (call.recognized) record(c, call, call.recognized, Date.now());
}
