import type { Db } from "../db/client.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import type { LogAccess } from "../usage/log-context.ts";
import { LeasesOfChange } from "./leases-of-change.ts";

// Erases the keys of an account. Each guard is erased before the row of its key. Without the key id from the row, the guard can no longer
// be found.

const guardsAtOnce = 50;
/** One call erases at most this many groups of 50 keys. The platform limits the number of requests that one invocation may send. */
const maxGroups = 15;

/** The context for erasing keys, with access to the log of their account. */
export interface ErasingKeys extends LogAccess {
  db: Db;
  guards: Guards;
}

/** Erases guards. Returns when the last lease of before has ended. */
async function forget(guards: Guards, ids: readonly string[]): Promise<void> {
  const leases = new LeasesOfChange();
  await Promise.all(ids.map(async (id) => leases.add(id, await callGuard(guards, id, (guard) => guard.erase()))));
  await leases.ended();
}

/**
 * Erases the guards of keys whose rows were lost when D1 was restored to an earlier state. Finds the ids of the lost keys in the audit log, in
 * the log writer and in the table of last uses.
 */
export async function forgetLostKeys({ db, guards, activity, writer }: ErasingKeys, accountId: string): Promise<void> {
  const ofAudit = "SELECT DISTINCT target_id AS id FROM audit WHERE account_id = ? AND target_type = 'key'";
  const ofUses = "SELECT use.value ->> 0 AS id FROM last_uses, json_each(uses) AS use WHERE account_id = ?";
  const ids = new Set((await writer.lastUses(accountId)).keys());
  for (const [d1, query] of [[db.$client, ofAudit] as const, [activity.$client, ofUses] as const])
    for (const { id } of (await d1.prepare(query).bind(accountId).all<{ id: string }>()).results) ids.add(id);
  const there = await db.$client.prepare("SELECT id FROM api_keys WHERE account_id = ?").bind(accountId).all<{ id: string }>();
  for (const { id } of there.results) ids.delete(id);
  const lost = [...ids];
  for (let from = 0; from < lost.length; from += guardsAtOnce) await forget(guards, lost.slice(from, from + guardsAtOnce));
}

/**
 * Erases keys of the account. Stops when no key is left, when `endsAt` has passed, or after 750 keys. Returns whether all keys are erased.
 * After each group of keys, calls `count` with the number of erased keys.
 */
export async function eraseKeys(
  { db, guards }: ErasingKeys,
  accountId: string,
  endsAt: number,
  count: (gone: number) => Promise<void>,
): Promise<boolean> {
  for (let groups = 0; ; groups++) {
    const { results } = await db.$client
      .prepare(`SELECT id FROM api_keys WHERE account_id = ? LIMIT ${guardsAtOnce}`)
      .bind(accountId)
      .all<{ id: string }>();
    if (results.length === 0) return true;
    if (Date.now() > endsAt || groups === maxGroups) return false;
    const ids = results.map(({ id }) => id);
    await forget(guards, ids);
    const gone = await db.$client
      .prepare("DELETE FROM api_keys WHERE id IN (SELECT value FROM json_each(?)) RETURNING 1")
      .bind(JSON.stringify(ids))
      .all();
    await count(gone.results.length);
  }
}
