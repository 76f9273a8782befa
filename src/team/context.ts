import type { Context } from "hono";
import { type Account, readAccount } from "../accounts/account.ts";
import { type Budgets, budgetsOf } from "../budget/budgets.ts";
import { connect } from "../db/client.ts";
import { type Guards, guardsOf } from "../guard/guards.ts";
import * as contexts from "../http/operation-contexts.ts";
import { publicOrigin } from "../http/request-url.ts";
import { Failure } from "../lib/errors/failure.ts";
import { actorOf, type OperatorContext, operatorCommit } from "../lifecycle/operator-context.ts";
import type { TeamEnv } from "./team-router.ts";
import { hasScope, mayActOn, type TokenRights, type TokenScope } from "./tokens/token.ts";
import type { Caller } from "./verify/verify.ts";

export type TeamContext = Context<TeamEnv>;

/** Returns the context of an operator's action. */
export const operatorContext = (c: TeamContext): OperatorContext & { guards: Guards; budgets: Budgets; env: Env; rights: TokenRights } => ({
  db: connect(c.env.DB),
  now: Date.now(),
  operator: c.get("operator"),
  tokenId: c.get("token").id,
  rights: c.get("token"),
  outbox: contexts.outboxFor(c),
  guards: guardsOf(c.env),
  budgets: budgetsOf(c.env),
  env: c.env,
});

/**
 * Returns the context for the operator's changes to an account's keys. `action`: the name of the action in the operator audit. `context`: the context whose outbox
 * writes the changes.
 */
export function keyContext(c: TeamContext, { id, logWriter }: Account, action: string, targetId?: string, context = operatorContext(c)) {
  const commit = operatorCommit(context, action, { accountId: id, ...(targetId !== undefined && { targetId }) });
  return contexts.contextFor(c, { actor: actorOf(operatorContext(c), id), logWriter, scopes: null }, commit);
}

/** Returns an account. Throws `not_found` if there is no such account, or if the token of the request may not act on it. */
export async function accountFor(c: TeamContext, id: string): Promise<Account> {
  if (!mayActOn(c.get("token"), id)) throw new Failure("not_found", "There is no such account.");
  return readAccount(connect(c.env.DB), id);
}

/** Throws `insufficient_scope` if a token lacks a scope. */
export function requireScope(token: TokenRights, scope: TokenScope): void {
  if (hasScope(token, scope)) return;
  throw new Failure("insufficient_scope", `This operation needs a service token with the scope ${scope}.`, {
    headers: { "WWW-Authenticate": `Bearer realm="operator", error="insufficient_scope", scope="${scope}"` },
  });
}

/** Returns a URL of the overview. If `PUBLIC_ORIGIN` is not set, throws `conflict`. */
export function ownUrl(c: TeamContext, path: string): string {
  const [origin = ""] = c.env.PUBLIC_ORIGIN.split(",");
  if (origin.trim() === "") throw new Failure("conflict", "PUBLIC_ORIGIN is not set, so the link would have no address.");
  return `${new URL(origin.trim()).origin}${path}`;
}

/** Returns a setup link with the given token. If `PUBLIC_ORIGIN` is not set, throws `conflict`. */
export const setupUrl = (c: TeamContext, token: string): string => ownUrl(c, `/setup#${token}`);

/** Returns the caller of a verification whose token may ask about these accounts. */
export const callerOf = (c: TeamContext, accountIds: Caller["accountIds"]): Caller => ({
  accountIds,
  origin: publicOrigin(c),
  requestId: c.get("requestId"),
  waitUntil: (work) => c.executionCtx.waitUntil(work),
});
