import type { Hono } from "hono";
import { newId } from "../ids.ts";
import { presentedKey } from "./admit.ts";
import { type ApiEnv, type Call, placeIn } from "./context.ts";
import { type Operations, openOperation } from "./operations.ts";
import { failureOf, problemAnswer } from "./problem.ts";

/**
 * Where every request comes in: its id and clock and, for an operation that is known by the path alone, its key. One that has
 * none or a made-up one ends here, before Hono has looked at it: a flood of those is as cheap as a refusal can be. All others,
 * and all that is written in another way (HEAD, a percent sign, a parameter in the path), `admit` refuses in the same words.
 */
export const door =
  (app: Hono<ApiEnv>, operations: Operations, { isLocal }: { isLocal: boolean }) =>
  (request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response> => {
    const startedAt = Date.now();
    const { method, headers } = request;
    const place = placeIn(request.url);
    const call: Call = {
      requestId: newId("req", startedAt),
      startedAt,
      method,
      headers,
      place,
      operation: operations.at(method, place.pathname) ?? openOperation,
      key: null,
      isLocal,
      recognized: null,
      status: 0,
      errorCode: null,
      bodyText: null,
    };
    try {
      if (call.operation.needsKey) {
        const key = presentedKey(headers, env);
        if (key.keyId === null) return problemAnswer(call, key.refusal);
        call.key = key;
      }
    } catch (error) {
      return problemAnswer(call, failureOf(error));
    }
    return app.fetch(request, { ...env, call }, ctx);
  };
