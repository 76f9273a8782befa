import { ne, sql } from "drizzle-orm";
import { changesSuspension, setSuspension } from "../accounts/suspension.ts";
import type { KeyConfig } from "../admission/admission.ts";
import { askGuard, type Guards } from "../admission/guards.ts";
import type { Db } from "../db/client.ts";
import { asRead, isUnchanged, nextVersion, wrote } from "../db/optimistic-locking.ts";
import { neverUsed } from "../usage/last-uses.ts";
import { commitChange } from "../webhooks/outbox.ts";
import { keyRevoked, keyUpdated } from "./events.ts";
import type { KeyRow } from "./key.ts";
import { raiseVersions } from "./raise-versions.ts";
import { apiKeys } from "./tables.ts";

// D1 can be set back in time (Time Travel), the guards cannot. A guard whose configuration is no version that the row ever had is then right.
// A revoked key stays revoked, a disabled key stays disabled until it is enabled, and the newer secret stays in force. All else is the row's,
// where the account sees it.

/** Whether a guard has something in force that the row as it was read knows nothing of. */
const isBehind = (row: KeyRow, inForce: KeyConfig): boolean =>
  inForce.version > row.version ||
  (inForce.version === row.version && inForce.revision !== row.revision) ||
  (inForce.state === "revoked" && row.state !== "revoked");

/**
 * Lets a row that is behind its guard take over what the guard knows better. Returns whether it was: the row is to be read again
 * then. Where the guard cannot be asked, the push of the change finds out.
 */
export async function reconcileKey({ db, guards }: { db: Db; guards: Guards }, row: KeyRow): Promise<boolean> {
  const inForce = await askGuard(guards, row.id, (guard) => guard.configuration()).catch(() => null);
  if (inForce === null || !isBehind(row, inForce)) return false;
  await adoptConfig(db, row, inForce);
  return true;
}

/**
 * Writes what a guard knows better into the row, above the versions of both. Skips this if the row has changed since it was read, because
 * another change was then on its way to the guard.
 */
export async function adoptConfig(db: Db, row: KeyRow, inForce: KeyConfig): Promise<void> {
  const now = Date.now();
  const state = stricter(inForce.state, row.state);
  const isRevoked = state === "revoked";
  const { pushedVersion, ...after } = {
    ...row,
    state,
    secretHash: inForce.secretHash,
    last4: inForce.last4,
    // Who signed the newer secret, nobody noted.
    signedBy: inForce.secretHash === row.secretHash ? row.signedBy : null,
    previousSecretHash: isRevoked ? null : inForce.previousSecretHash,
    overlapEndsAt: isRevoked ? null : inForce.overlapEndsAt,
    version: Math.max(row.version, inForce.version) + 1,
    ...nextVersion(row, now),
  };
  const event = isRevoked ? keyRevoked : keyUpdated;
  // Even if D1 was restored: a suspended account stays suspended until it is resumed.
  const suspension =
    inForce.suspendedAt && inForce.state !== "revoked"
      ? [
          // Its other keys are told by the clock.
          raiseVersions(
            db,
            row.accountId,
            now,
            sql`${ne(apiKeys.id, row.id)} AND ${changesSuspension(row.accountId, inForce.suspendedAt)}`,
          ),
          setSuspension(db, row.accountId, inForce.suspendedAt),
        ]
      : [];
  const [written] = await commitChange(
    { db },
    {
      evenWhereFull: true,
      events: [event({ ...after, pushedVersion, ...neverUsed }, now, { ...row, ...neverUsed })],
      statements: [db.update(apiKeys).set(after).where(asRead(apiKeys, row)).returning({ id: apiKeys.id }), ...suspension],
      when: isUnchanged(db, apiKeys, row),
    },
  );
  if (wrote(written)) console.warn(`the row of ${row.id} was behind its guard and has taken over what the guard has in force`);
}

const stricter = (one: KeyRow["state"], other: KeyRow["state"]): KeyRow["state"] => {
  const states = ["revoked", "disabled"] as const;
  return states.find((state) => one === state || other === state) ?? "active";
};
