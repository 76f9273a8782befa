import { Failure } from "../errors/failure.ts";
import { isWithin } from "../net/ip-list.ts";
import type { KeyRow } from "./key.ts";

/**
 * The permissions of a key. A key can grant another key only permissions that it has itself. The operator and members are not bound by such
 * permissions.
 */
export type Permissions = Pick<KeyRow, "scopes" | "hourlyLimit" | "allowedIps" | "expiresAt">;

const forbidden = (detail: string) => new Failure("forbidden", detail);

/** Throws `forbidden` if `touched` contains a scope that the acting key does not have. */
export function requireScopesWithin(touched: readonly string[], own: Permissions): void {
  const missing = touched.filter((scope) => !own.scopes.includes(scope));
  if (missing.length > 0) throw forbidden(`This key may only act on keys whose scopes it also has. Missing scopes: ${missing.join(", ")}.`);
}

/** Throws `forbidden` if one of the `granted` permissions exceeds the acting key's own. Omitted permissions are not checked. */
export function requireGrantable(granted: Partial<Permissions>, own: Permissions): void {
  if (granted.scopes) requireScopesWithin(granted.scopes, own);
  if (granted.hourlyLimit !== undefined && granted.hourlyLimit > own.hourlyLimit) {
    throw forbidden(`This key may grant at most its own hourly limit, which is ${own.hourlyLimit}.`);
  }
  if (granted.expiresAt !== undefined && own.expiresAt !== null && (granted.expiresAt === null || granted.expiresAt > own.expiresAt)) {
    throw forbidden("This key may not grant a later expiry than its own.");
  }
  if (granted.allowedIps && !isWithin(granted.allowedIps, own.allowedIps)) {
    throw forbidden("This key may not grant addresses outside its own list.");
  }
}

/** Returns whether `after` lets a key do more than `before`: another scope, a higher limit, more addresses or a later expiry. */
export function widens(before: Permissions, after: Permissions): boolean {
  const expiresLater = before.expiresAt !== null && (after.expiresAt === null || after.expiresAt > before.expiresAt);
  return (
    after.scopes.some((scope) => !before.scopes.includes(scope)) ||
    after.hourlyLimit > before.hourlyLimit ||
    !isWithin(after.allowedIps, before.allowedIps) ||
    expiresLater
  );
}
