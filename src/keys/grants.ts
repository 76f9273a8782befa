import { Failure } from "../errors/failure.ts";
import { isWithin } from "../net/ip-list.ts";
import type { KeyRow } from "./key.ts";

/** What a key may do, and so what it may grant to others. The operator is bound by nothing. */
export type Permissions = Pick<KeyRow, "scopes" | "hourlyLimit" | "allowedIps" | "expiresAt">;

const forbidden = (detail: string) => new Failure("forbidden", detail);

/** Throws `forbidden` where `touched` has a scope that the acting key has not. */
export function requireScopesWithin(touched: readonly string[], own: Permissions): void {
  const missing = touched.filter((scope) => !own.scopes.includes(scope));
  if (missing.length > 0) throw forbidden(`This key may only act on keys whose scopes are all its own. It has not: ${missing.join(", ")}.`);
}

/** Throws `forbidden` where one of the `granted` permissions goes beyond the acting key's own. What is not named is not granted. */
export function requireGrantable(granted: Partial<Permissions>, own: Permissions): void {
  if (granted.scopes) requireScopesWithin(granted.scopes, own);
  if (granted.hourlyLimit !== undefined && granted.hourlyLimit > own.hourlyLimit) {
    throw forbidden(`This key may grant an hourly limit of ${own.hourlyLimit} at most, its own.`);
  }
  if (granted.expiresAt !== undefined && own.expiresAt !== null && (granted.expiresAt === null || granted.expiresAt > own.expiresAt)) {
    throw forbidden("This key may not grant an expiry later than its own.");
  }
  if (granted.allowedIps && !isWithin(granted.allowedIps, own.allowedIps)) {
    throw forbidden("This key may not grant addresses beyond its own list.");
  }
}

/** Whether `after` lets a key do more than `before`: another scope, a higher limit, more addresses or a later expiry. */
export function widens(before: Permissions, after: Permissions): boolean {
  const expiresLater = before.expiresAt !== null && (after.expiresAt === null || after.expiresAt > before.expiresAt);
  return (
    after.scopes.some((scope) => !before.scopes.includes(scope)) ||
    after.hourlyLimit > before.hourlyLimit ||
    !isWithin(after.allowedIps, before.allowedIps) ||
    expiresLater
  );
}
