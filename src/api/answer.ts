import { createMiddleware } from "hono/factory";
import { admit } from "./admit.ts";
import { readBody } from "./body.ts";
import { type ApiEnv, callOf } from "./context.ts";
import { type Operations, openOperation } from "./operations.ts";
import { failureOf, problemAnswer } from "./problem.ts";
import { record } from "./record.ts";
import { checkHeaders } from "./request-headers.ts";
import { refuseQuery } from "./validation.ts";

/**
 * The way of every request of the API behind the door: the key's admission and what else holds for all operations, the
 * handler, the entry in the log. One middleware, since each costs as much as a hash.
 */
export const answer = (operations: Operations) =>
  createMiddleware<ApiEnv>(async function answer(c, next) {
    const call = callOf(c);
    if (call.operation === openOperation) call.operation = operations.of(c);
    const { operation } = call;
    try {
      const refusal = operation.needsKey ? await admit(c, call) : null;
      if (refusal) c.res = refusal;
      else {
        if (operation.mediaTypes.length > 0) await readBody(c, operation);
        checkHeaders(c, operation.headers);
        if (!operation.takesQuery) refuseQuery(c);
        await next();
      }
    } catch (error) {
      // What stands before the handler. What a handler throws is answered by the app's onError, below `next`.
      c.res = problemAnswer(call, failureOf(error));
    }
    if (call.recognized) record(c, call, call.recognized, Date.now());
  });
