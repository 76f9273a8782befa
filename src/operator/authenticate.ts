import { createMiddleware } from "hono/factory";
import { problemType } from "../http/problem.ts";
import type { OperatorEnv } from "./context.ts";
import { operatorOf, operatorTokens } from "./tokens.ts";

/** What a call without such a token is told. */
const code = "invalid_token";

/** Lets in whoever sends the token of an operator, by `Authorization: Bearer` and nowhere else. */
export const operatorOnly = createMiddleware<OperatorEnv>(async function operatorOnly(c, next) {
  const [, sent = ""] = /^bearer +(\S+)$/i.exec(c.req.header("Authorization") ?? "") ?? [];
  const token = sent === "" ? null : operatorOf(c.env, sent);
  if (token === null) {
    const isConfigured = operatorTokens(c.env).length > 0;
    const detail = isConfigured
      ? "Send the token of an operator: Authorization: Bearer <OPERATOR_TOKEN>."
      : "This Worker has no operator: its secret OPERATOR_TOKENS is not set.";
    const body = { type: "about:blank", title: "Unauthorized", status: 401, detail, code, request_id: c.get("requestId") };
    return new Response(JSON.stringify(body), {
      status: 401,
      headers: { "Content-Type": problemType, "WWW-Authenticate": 'Bearer realm="operator"' },
    });
  }
  c.set("operator", token.name);
  return next();
});
