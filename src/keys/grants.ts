import type { Limit } from "../budget/limits.ts";
import { Failure } from "../lib/errors/failure.ts";
import { isWithin } from "../lib/net/ip-list.ts";
import type { KeyRow } from "./key.ts";

/**
 * The permissions of a key. A key can grant only its own permissions to another key. This rule does not apply to the operator and to
 * members.
 */
export type Permissions = Pick<KeyRow, "scopes" | "hourlyLimit" | "otherLimits" | "allowedIps" | "expiresAt">;

const forbidden = (detail: string) => new Failure("forbidden", detail);

/** Throws `forbidden` if `touched` contains a scope that the acting key does not have. */
export function requireScopesWithin(touched: readonly string[], own: Permissions): void {
  const missing = touched.filter((scope) => !own.scopes.includes(scope));
  if (missing.length > 0) throw forbidden(`This key may only act on keys whose scopes it also has. Missing scopes: ${missing.join(", ")}.`);
}

/**
 * If one of the `granted` permissions exceeds the permissions of the acting key, throws `forbidden`. Omitted permissions are not checked.
 */
export function requireGrantable(granted: Partial<Permissions>, own: Permissions): void {
  if (granted.scopes) requireScopesWithin(granted.scopes, own);
  if (granted.hourlyLimit !== undefined && granted.hourlyLimit > own.hourlyLimit) {
    throw forbidden(`This key may grant at most its own hourly limit, which is ${own.hourlyLimit}.`);
  }
  const wider = granted.otherLimits === undefined ? undefined : widerLimit(granted.otherLimits, own.otherLimits);
  if (wider) throw forbidden(`This key may grant at most its own limit per ${wider.per}, which is ${wider.limit}.`);
  if (granted.expiresAt !== undefined && own.expiresAt !== null && (granted.expiresAt === null || granted.expiresAt > own.expiresAt)) {
    throw forbidden("This key may not grant a later expiry than its own.");
  }
  if (granted.allowedIps && !isWithin(granted.allowedIps, own.allowedIps)) {
    throw forbidden("This key may not grant addresses outside its own list.");
  }
}

/** Returns the first of `own` limits that `limits` exceed. A period without a limit is unlimited. */
const widerLimit = (limits: readonly Limit[], own: readonly Limit[]): Limit | undefined =>
  own.find(({ per, limit }) => (limits.find((each) => each.per === per)?.limit ?? Number.POSITIVE_INFINITY) > limit);

/** Returns whether `after` allows more than `before`: an additional scope, a higher limit, more addresses or a later expiry. */
export function widens(before: Permissions, after: Permissions): boolean {
  const expiresLater = before.expiresAt !== null && (after.expiresAt === null || after.expiresAt > before.expiresAt);
  return (
    after.scopes.some((scope) => !before.scopes.includes(scope)) ||
    after.hourlyLimit > before.hourlyLimit ||
    widerLimit(after.otherLimits, before.otherLimits) !== undefined ||
    !isWithin(after.allowedIps, before.allowedIps) ||
    expiresLater
  );
}
