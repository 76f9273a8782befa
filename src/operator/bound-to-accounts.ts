import { createMiddleware } from "hono/factory";
import { Failure } from "../errors/failure.ts";
import { mayActOn } from "../service-tokens/token.ts";
import type { OperatorEnv } from "./context.ts";

/** The operations that look at the account themselves: they find it by a key or an external id, or list only what the token may see. */
const looksAtAccount =
  /^\/operator\/api\/(?:accounts$|accounts\/by-external-id\/|keys\/|verify$|verify\/forward|reports$|tokens|openapi\.json$)/;
const ofAnAccount = /^\/operator\/api\/accounts\/([^/]+)/;

/** Returns whether an operation affects all accounts, so that a token that is bound to accounts may not use it. `path`: the path of the operation. */
export const affectsAllAccounts = (path: string): boolean => !looksAtAccount.test(path) && !ofAnAccount.test(path);

/**
 * Keeps a token that is bound to accounts to these accounts. All others do not exist for it, and it may not work on the whole deployment. Operations
 * of the team API that are added later are closed to bound tokens, unless their path begins with an account.
 */
export const boundToAccounts = createMiddleware<OperatorEnv>(async function boundToAccounts(c, next) {
  const { path } = c.req;
  const token = c.get("token");
  // An unknown path and an unsupported method get the same response as for any other token.
  if (token.accountIds === null || !c.get("policy")?.isOperation || looksAtAccount.test(path)) return next();
  const [, accountId] = ofAnAccount.exec(path) ?? [];
  if (accountId === undefined) throw affectsAll();
  if (!mayActOn(token, accountId)) throw new Failure("not_found", "There is no such account.");
  return next();
});

/** Denies tokens that are bound to accounts, for a path that affects all accounts. */
export const unbound = createMiddleware<OperatorEnv>(async function unbound(c, next) {
  if (c.get("token").accountIds !== null) throw affectsAll();
  return next();
});

const affectsAll = () =>
  new Failure("forbidden", "A service token that is bound to accounts cannot do this, because it affects all accounts.");
