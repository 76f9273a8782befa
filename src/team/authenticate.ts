import { createMiddleware } from "hono/factory";
import { looksLikeServiceToken } from "../credentials/service-token.ts";
import { signingSecrets } from "../credentials/signing-secrets.ts";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { originOf } from "../http/client-address.ts";
import { Failure } from "../lib/errors/failure.ts";
import { minuteMs, secondMs } from "../lib/time/clock.ts";
import { denyOperatorToken } from "../monitoring/sign-in-failures.ts";
import { requireScope, type TeamContext } from "./context.ts";
import { operatorOf, operatorTokens } from "./operator-tokens.ts";
import type { ActingToken, TeamEnv } from "./team-router.ts";
import { authenticateToken } from "./tokens/authenticate-token.ts";
import { everyRight, type TokenScope } from "./tokens/token.ts";

/**
 * Counts and records a wrong token. Returns whether the source has sent more than ten wrong tokens in the current clock minute. Correct tokens
 * are not counted, and are accepted even after too many wrong tokens. If D1 does not respond, returns false. The caller denies the wrong token in
 * any case.
 */
export const isTooMany = async (c: TeamContext): Promise<boolean> => {
  try {
    return (await denyOperatorToken(connect(c.env.DB), originOf(c), Date.now())).isTooMany;
  } catch (error) {
    console.error("a wrong operator token was not recorded:", messagesOf(error));
    return false;
  }
};

const tooManyTokens = () =>
  new Failure(
    "too_many_attempts",
    "Too many requests with a wrong token came from your IP address. Wait a minute, then try again. The right token is accepted at any time.",
    { headers: { "Retry-After": String(Math.ceil((minuteMs - (Date.now() % minuteMs)) / secondMs)) } },
  );

/**
 * Requires an operator token or a service token in the header `Authorization: Bearer`. `scopeOf`: returns the scope that a service token needs, or
 * null if the path does not exist. An operator token may do everything.
 */
export const requireToken = (scopeOf: (c: TeamContext) => TokenScope | null) =>
  createMiddleware<TeamEnv>(async function requireToken(c, next) {
    const [, sent = ""] = /^bearer +(\S+)$/i.exec(c.req.header("Authorization") ?? "") ?? [];
    const token = await authenticateFor(c, sent, scopeOf(c));
    c.set("operator", token.name);
    c.set("token", token);
    return next();
  });

/** Returns the token that a request was sent with. Throws `invalid_token`, and `insufficient_scope` if the token lacks a scope that is not null. */
export async function authenticateFor(c: TeamContext, sent: string, scope: TokenScope | null): Promise<NamedToken> {
  const token = await tokenOf(c, sent, scope);
  if (token === null) {
    // A forged service token costs no I/O. Only operator tokens can be guessed, so only their failures are counted.
    if (sent !== "" && !looksLikeServiceToken(sent) && (await isTooMany(c))) throw tooManyTokens();
    throw noToken(c, sent);
  }
  if (scope !== null) requireScope(token, scope);
  return token;
}

type NamedToken = ActingToken & { name: string };

async function tokenOf(c: TeamContext, sent: string, scope: TokenScope | null): Promise<NamedToken | null> {
  if (sent === "") return null;
  if (looksLikeServiceToken(sent)) return authenticateToken(c.env, signingSecrets(c.env), { token: sent, scope: scope ?? "operate" });
  const operator = operatorOf(c.env, sent);
  return operator && { ...everyRight, id: undefined, name: operator.name };
}

function noToken(c: TeamContext, sent: string): Failure {
  const detail =
    operatorTokens(c.env).length > 0
      ? "Send a service token or an operator token: Authorization: Bearer <TOKEN>."
      : "Send a service token: Authorization: Bearer <SERVICE_TOKEN>. This Worker has no operator, because its secret OPERATOR_TOKENS is not set.";
  return new Failure("invalid_token", detail, {
    headers: { "WWW-Authenticate": `Bearer realm="operator"${sent === "" ? "" : ', error="invalid_token"'}` },
  });
}
