import { type Actor, isOfTeam } from "../accounts/actor.ts";
import { differing, isEmpty } from "../db/differing.ts";
import type { WhenFull } from "../outbox/outbox.ts";
import { widens } from "./grants.ts";
import type { KeyRow } from "./key.ts";

/**
 * Returns what happens to a change of a key when the account or the database is full. A change can be allowed only if it does nothing except
 * restrict the key. These restrictions are always allowed: disabling the key, ending an overlap, and any restriction by the operator. Other
 * restrictions are allowed until the account has used up its reserved storage.
 */
export function whenFullOf(before: KeyRow, after: KeyRow, { by }: Actor): WhenFull {
  if (!isTightening(before, after)) return "deny";
  const isEnding = before.state !== after.state || (before.previousSecretHash !== null && after.previousSecretHash === null);
  return isEnding || isOfTeam(by) ? "write" : "reserve";
}

/** Returns whether a change of a key does nothing except restrict the key. If the change writes other values, returns false. */
function isTightening(before: KeyRow, { name, externalId, metadata, ...after }: KeyRow): boolean {
  const isOnly = isEmpty(differing({ name, externalId, metadata }, before));
  return isOnly && !widens(before, { ...before, ...after }) && (after.state === before.state || after.state === "disabled");
}
