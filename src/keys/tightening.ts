import type { Actor } from "../accounts/actor.ts";
import { isWithin } from "../net/ip-list.ts";
import type { EvenWhereFull } from "../webhooks/outbox.ts";
import type { KeyRow } from "./key.ts";

/**
 * How far a change of a key goes on where the account or the database is full. What disables the key or ends an overlap always does, and so
 * does what the operator takes away.
 */
export function evenWhereFullOf(before: KeyRow, after: KeyRow, { by }: Actor): EvenWhereFull {
  if (!isTightening(before, after)) return false;
  const isEnding = before.state !== after.state || (before.previousSecretHash !== null && after.previousSecretHash === null);
  return isEnding || by.type === "operator" ? true : "within the reserve";
}

/** Whether a change only takes away from what a key may do. A new name is no such change. */
function isTightening(before: KeyRow, after: KeyRow): boolean {
  return (
    after.name === before.name &&
    after.scopes.every((scope) => before.scopes.includes(scope)) &&
    after.hourlyLimit <= before.hourlyLimit &&
    isWithin(after.allowedIps, before.allowedIps) &&
    (after.expiresAt ?? Number.POSITIVE_INFINITY) <= (before.expiresAt ?? Number.POSITIVE_INFINITY) &&
    (after.state === before.state || after.state === "disabled")
  );
}
