import { ne, sql } from "drizzle-orm";
import { changesSuspension, setSuspension } from "../accounts/suspension.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import type { Db } from "../db/client.ts";
import { asRead, isUnchanged, nextVersion, wrote } from "../db/optimistic-locking.ts";
import type { KeyConfig } from "../guard/decision.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { commitChange } from "../outbox/outbox.ts";
import { neverUsed } from "../usage/last-uses.ts";
import { keyRevoked, keyUpdated } from "./events.ts";
import type { KeyRow } from "./key.ts";
import { raiseVersions } from "./raise-versions.ts";

// D1 can be restored to an earlier state with Time Travel, but the guards cannot. After such a restore, a guard can have a configuration
// that the row of its key never had. In this case, the guard is right. A revoked key stays revoked, and a disabled key stays disabled until
// it is enabled. The newer secret of the key stays active. All other settings come from the row, because the row holds the values that
// the account sees.

/** Returns whether the row lacks a change that is active in the guard. */
const isBehind = (row: KeyRow, active: KeyConfig): boolean =>
  active.version > row.version ||
  (active.version === row.version && active.revision !== row.revision) ||
  (active.state === "revoked" && row.state !== "revoked");

/**
 * If the row of a key is behind the key's guard, updates the row and returns true. The caller must then read the row again. Otherwise
 * returns false. If the guard cannot be reached, also returns false. A later push of the key then detects the difference.
 */
export async function reconcileKey({ db, guards }: { db: Db; guards: Guards }, row: KeyRow): Promise<boolean> {
  const active = await callGuard(guards, row.id, (guard) => guard.configuration()).catch(() => null);
  if (active === null || !isBehind(row, active)) return false;
  await adoptConfig(db, row, active);
  return true;
}

/**
 * Writes the guard's newer settings into the row. The new version is higher than the version in the row and the version in the guard. If
 * the row has changed since it was read, another change is in flight to the guard. In this case, writes nothing.
 */
export async function adoptConfig(db: Db, row: KeyRow, active: KeyConfig): Promise<void> {
  const now = Date.now();
  const state = stricter(active.state, row.state);
  const isRevoked = state === "revoked";
  const { pushedVersion, ...after } = {
    ...row,
    state,
    secretHash: active.secretHash,
    last4: active.last4,
    // If only the guard has the hash of the key's secret, the name of the signing secret is not known.
    signedBy: active.secretHash === row.secretHash ? row.signedBy : null,
    previousSecretHash: isRevoked ? null : active.previousSecretHash,
    overlapEndsAt: isRevoked ? null : active.overlapEndsAt,
    version: Math.max(row.version, active.version) + 1,
    ...nextVersion(row, now),
  };
  const event = isRevoked && row.state !== "revoked" ? keyRevoked : keyUpdated;
  // A suspended account stays suspended until it is resumed, even if D1 was restored to an earlier state.
  const suspension =
    active.suspendedAt && active.state !== "revoked"
      ? [
          // A scheduled job pushes the suspension to the guards of the account's other keys.
          raiseVersions(db, row.accountId, now, sql`${ne(apiKeys.id, row.id)} AND ${changesSuspension(row.accountId, active.suspendedAt)}`),
          setSuspension(db, row.accountId, active.suspendedAt),
        ]
      : [];
  const { written } = await commitChange(
    { db },
    {
      whenFull: "write",
      events: [event({ ...after, pushedVersion, ...neverUsed }, now, { ...row, ...neverUsed })],
      statements: { written: db.update(apiKeys).set(after).where(asRead(apiKeys, row)).returning({ id: apiKeys.id }), suspension },
      when: isUnchanged(db, apiKeys, row),
    },
  );
  if (wrote(written)) console.warn(`the row of ${row.id} was behind its guard and has taken over what its guard has`);
}

const stricter = (one: KeyRow["state"], other: KeyRow["state"]): KeyRow["state"] => {
  const states = ["revoked", "disabled"] as const;
  return states.find((state) => one === state || other === state) ?? "active";
};
