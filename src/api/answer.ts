import { createMiddleware } from "hono/factory";
import { newId } from "../ids.ts";
import { admit } from "./admit.ts";
import { readBody } from "./body.ts";
import type { ApiEnv } from "./context.ts";
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
  createMiddleware<ApiEnv>(async function answer(c, next) {
    const startedAt = Date.now();
    c.set("isLocal", isLocal);
    c.set("startedAt", startedAt);
    c.set("requestId", newId("req", startedAt));
    const operation = operations.of(c);
    c.set("operation", operation);
    try {
      const refusal = operation.needsKey ? await admit(c, operation) : null;
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
    const recognized = c.get("recognized");
    if (recognized) record(c, recognized, Date.now());
  });
