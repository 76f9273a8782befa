import type { serviceTokens } from "../../db/areas/tokens/tables.ts";

/** What a service token may do. `operate` covers suspension, erasure, limits, plans and secrets. */
export const tokenScopes = [
  "verify",
  "accounts:read",
  "accounts:write",
  "keys:write",
  "keys:adopt",
  "portal:write",
  "metrics:read",
  "tokens:write",
  "operate",
] as const;
export type TokenScope = (typeof tokenScopes)[number];

/** The scope that an effect needs, by every operation that has the effect. Effects that one operation alone has are named by its route. */
export const scopeOf = {
  /** Creates, changes, disables, enables, limits, rotates or revokes a key. */
  key: "keys:write",
  /** Sets the plan, the limits, the retention, the quotas or `on_unavailable` of an account, suspends it or erases it. */
  accountTerms: "operate",
} as const satisfies Record<string, TokenScope>;

type TokenRow = typeof serviceTokens.$inferSelect;

/** A service token as its object stores it. Times are in milliseconds since the epoch. */
export type StoredToken = Pick<TokenRow, "id" | "name" | "scopes" | "accountIds" | "tokenHash" | "expiresAt" | "revokedAt">;

/** What a token may do at all: its scopes and accounts, and the time until which it is valid. Null means no restriction. */
export interface TokenRights {
  scopes: readonly string[] | null;
  accountIds: readonly string[] | null;
  expiresAt: number | null;
}

/** The rights of an operator token of `OPERATOR_TOKENS`. */
export const everyRight: TokenRights = { scopes: null, accountIds: null, expiresAt: null };

export const isLive = ({ expiresAt, revokedAt }: Pick<StoredToken, "expiresAt" | "revokedAt">, now: number): boolean =>
  revokedAt === null && (expiresAt === null || now < expiresAt);

export const hasScope = ({ scopes }: Pick<TokenRights, "scopes">, scope: TokenScope): boolean => scopes?.includes(scope) ?? true;

export const mayActOn = ({ accountIds }: Pick<TokenRights, "accountIds">, accountId: string): boolean =>
  accountIds?.includes(accountId) ?? true;

/**
 * Returns why a token may not create another one, or null if it may. A token creates only narrower tokens: they have fewer scopes, no other accounts and no
 * later expiry. `tokens:write` itself can be granted only with an operator token.
 */
export function reasonAgainst(own: TokenRights, made: TokenRights): "scopes" | "accounts" | "expires_at" | null {
  const { scopes, accountIds, expiresAt } = own;
  if (scopes !== null && !made.scopes?.every((scope) => scope !== "tokens:write" && scopes.includes(scope))) return "scopes";
  if (accountIds !== null && !made.accountIds?.every((id) => accountIds.includes(id))) return "accounts";
  if (expiresAt !== null && (made.expiresAt === null || made.expiresAt > expiresAt)) return "expires_at";
  return null;
}
