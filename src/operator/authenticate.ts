import { createMiddleware } from "hono/factory";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { originOf } from "../http/client-address.ts";
import { problemType } from "../http/problem.ts";
import { denyOperatorToken } from "../operations/sign-in-failures.ts";
import { minuteMs, secondMs } from "../time/clock.ts";
import type { OperatorContext, OperatorEnv } from "./context.ts";
import { operatorOf, operatorTokens } from "./tokens.ts";

/**
 * Counts and records a wrong token. Returns whether the source has sent more than ten wrong tokens in the current clock minute. Correct tokens
 * are not counted, and are accepted even after too many wrong tokens. If D1 does not respond, returns false. The caller denies the wrong token in
 * any case.
 */
export const isTooMany = async (c: OperatorContext): Promise<boolean> => {
  try {
    return (await denyOperatorToken(connect(c.env.DB), originOf(c), Date.now())).isTooMany;
  } catch (error) {
    console.error("a wrong operator token was not recorded:", messagesOf(error));
    return false;
  }
};

/** The codes of two errors: a request without a valid token, and too many wrong tokens from one source. */
const [code, tooManyAttempts] = ["invalid_token", "too_many_attempts"];

const tooManyTokens = (c: OperatorContext) => {
  const secondsLeft = Math.ceil((minuteMs - (Date.now() % minuteMs)) / secondMs);
  const detail = "Too many wrong tokens came from your IP address. Wait a minute, then try again. The right token is accepted at any time.";
  const body = {
    type: "about:blank",
    title: "Too Many Requests",
    status: 429,
    detail,
    code: tooManyAttempts,
    request_id: c.get("requestId"),
  };
  return new Response(JSON.stringify(body), { status: 429, headers: { "Content-Type": problemType, "Retry-After": String(secondsLeft) } });
};

/** Requires an operator token in the header `Authorization: Bearer`. */
export const requireOperatorToken = createMiddleware<OperatorEnv>(async function requireOperatorToken(c, next) {
  const [, sent = ""] = /^bearer +(\S+)$/i.exec(c.req.header("Authorization") ?? "") ?? [];
  const token = sent === "" ? null : operatorOf(c.env, sent);
  if (token === null) {
    if (sent !== "" && (await isTooMany(c))) return tooManyTokens(c);
    const isConfigured = operatorTokens(c.env).length > 0;
    const detail = isConfigured
      ? "Send an operator token: Authorization: Bearer <OPERATOR_TOKEN>."
      : "This Worker has no operator, because its secret OPERATOR_TOKENS is not set.";
    const body = { type: "about:blank", title: "Unauthorized", status: 401, detail, code, request_id: c.get("requestId") };
    return new Response(JSON.stringify(body), {
      status: 401,
      headers: { "Content-Type": problemType, "WWW-Authenticate": 'Bearer realm="operator"' },
    });
  }
  c.set("operator", token.name);
  return next();
});
