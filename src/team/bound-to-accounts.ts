import { createMiddleware } from "hono/factory";
import { Failure } from "../lib/errors/failure.ts";
import type { TeamEnv } from "./team-router.ts";
import { mayActOn } from "./tokens/token.ts";

/**
 * Keeps a token that is bound to accounts to these accounts. All others do not exist for it, and it may not work on the whole deployment. A route declares which
 * accounts it reaches. A route without this declaration is closed to bound tokens.
 */
export const boundToAccounts = createMiddleware<TeamEnv>(async function boundToAccounts(c, next) {
  const token = c.get("token");
  const policy = c.get("policy");
  // An unknown path and an unsupported method get the same response as for any other token.
  if (token.accountIds === null || !policy || policy.reach === "handler") return next();
  if (policy.reach !== "path") throw affectsAll();
  const at = policy.route.split("/").indexOf("{id}");
  if (!mayActOn(token, c.req.path.split("/")[at] ?? "")) throw new Failure("not_found", "There is no such account.");
  return next();
});

/** Denies tokens that are bound to accounts, for a path that affects all accounts. */
export const unbound = createMiddleware<TeamEnv>(async function unbound(c, next) {
  if (c.get("token").accountIds !== null) throw affectsAll();
  return next();
});

const affectsAll = () =>
  new Failure("forbidden", "A service token that is bound to accounts cannot do this, because it affects all accounts.");
