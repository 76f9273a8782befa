import { and, asc, eq, gt, lt, sql } from "drizzle-orm";
import { isLiveKey } from "../admission/live-keys.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import type { Guards } from "../guard/guards.ts";
import { configColumns, readConfig } from "../guard/read-config.ts";
import { Failure } from "../lib/errors/failure.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { forgetDecisions, LeasesOfChange } from "./leases-of-change.ts";
import { adoptConfig } from "./reconcile-key.ts";

const timeoutMs = 5 * secondMs;
const pauseMs = 100;

/**
 * In one run, at most this many keys are pushed a second time, each with separate D1 statements. Each of these keys needs at most ten
 * statements.
 */
const maxOthers = 20;
const keysAtOnce = 100;

export interface Push {
  db: Db;
  guards: Guards;
}

/**
 * Pushes a stored change of a key to the key's guard. The change applies to every request that starts after this function has returned. If
 * the guard does not confirm the change within 5 s, throws `unavailable`. After such an error, the change stays stored, and a scheduled job
 * pushes the change again.
 */
export async function pushKey(push: Push, keyId: string): Promise<void> {
  const leases = new LeasesOfChange();
  try {
    await withDeadline(
      untilConfirmed(() => pushOnce(push, keyId, leases), Date.now() + timeoutMs),
      timeoutMs,
      "The push of a key",
    );
  } catch (cause) {
    throw new Failure("unavailable", "The change is saved and takes effect once the key's guard responds.", { cause });
  }
}

/** Tries to push a change until it is confirmed, with growing pauses. Throws the last error if it is not confirmed at `giveUpAt`. */
export async function untilConfirmed(pushOnce: () => Promise<void>, giveUpAt: number): Promise<void> {
  for (let pause = pauseMs; ; pause *= 2) {
    try {
      return await pushOnce();
    } catch (error) {
      if (Date.now() + pause > giveUpAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

async function pushOnce({ db, guards }: Push, keyId: string, leases: LeasesOfChange): Promise<void> {
  for (;;) {
    const config = await readConfig(db, keyId);
    if (!config) return;
    forgetDecisions(keyId);
    const active = await guards.getByName(keyId).configure(config);
    leases.add(keyId, active.outdatedForMs);
    if (active.revision === config.revision && active.state === config.state) {
      await leases.ended();
      await db
        .update(apiKeys)
        .set({ pushedVersion: config.version })
        .where(and(eq(apiKeys.id, keyId), lt(apiKeys.pushedVersion, config.version)));
      return;
    }
    const [row] = await db.select().from(apiKeys).where(eq(apiKeys.id, keyId));
    // If the row has changed since it was read, a later push has reached the guard first. If the row has not changed, D1 was restored to an
    // earlier state.
    if (row?.revision === config.revision) await adoptConfig(db, row, active);
  }
}

/** Returns whether the key has a stored change that its guard has not confirmed. */
export const isUnpushed = (key: { version: number; pushedVersion: number }): boolean => key.pushedVersion < key.version;

/**
 * Pushes stored changes of an account to the guards of all live keys of the account. The changes apply to every request that starts after
 * this function has returned. Returns the number of pushed keys. If a guard does not confirm the changes within 5 s, throws `unavailable`.
 * After such an error, the changes stay stored, and a scheduled job pushes the changes again.
 */
export async function pushKeysOf(push: Push, accountId: string): Promise<number> {
  const giveUpAt = Date.now() + timeoutMs;
  const leases = new LeasesOfChange();
  const confirmed: Confirmed[] = [];
  let pushed = 0;
  for (let cursor = ""; ; ) {
    const { last, ...others } = await tellGuards(push, cursor, keysAtOnce, leases, accountId);
    confirmed.push(...others.confirmed);
    cursor = last ?? "";
    if (last !== null) continue;
    await leases.ended();
    pushed += confirmed.length;
    await confirm(push.db, confirmed.splice(0));
    const [waiting] = await push.db
      .select({ id: apiKeys.id })
      .from(apiKeys)
      .where(and(sql`pushed_version < version`, isLiveKey(accountId, Date.now())))
      .limit(1);
    if (!waiting) return pushed;
    if (Date.now() + pauseMs > giveUpAt)
      throw new Failure(
        "unavailable",
        "The change is saved and takes effect for each key once its guard responds. Some guards do not respond right now.",
      );
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/**
 * Pushes keys that have a stored change which the guard has not confirmed. Proceeds in the order of the key ids, and starts after the id
 * `cursor`. Pushes at most `limit` keys. If the guard of a key cannot be reached, the key waits until the next round. In the result, `done`
 * is the number of confirmed keys. `last` is the id of the last processed key, or null if no keys are left. If `accountId` is given, pushes
 * only the live keys of that account.
 */
export async function pushWaitingKeys(push: Push, cursor: string, limit: number): Promise<{ done: number; last: string | null }> {
  const leases = new LeasesOfChange();
  const { confirmed, last } = await tellGuards(push, cursor, limit, leases);
  await leases.ended();
  await confirm(push.db, confirmed);
  return { done: confirmed.length, last };
}

/** A key whose guard has a version of its configuration. */
type Confirmed = [keyId: string, version: number];

async function tellGuards(
  push: Push,
  cursor: string,
  limit: number,
  leases: LeasesOfChange,
  accountId?: string,
): Promise<{ confirmed: Confirmed[]; last: string | null }> {
  const { db, guards } = push;
  const waiting = await db
    .select({ id: apiKeys.id, ...configColumns })
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(
      and(sql`pushed_version < version`, gt(apiKeys.id, cursor), accountId === undefined ? undefined : isLiveKey(accountId, Date.now())),
    )
    .orderBy(asc(apiKeys.id))
    .limit(limit);
  const confirmed: Confirmed[] = [];
  let others = 0;
  const outcomes = await Promise.allSettled(
    waiting.map(async ({ id, ...config }) => {
      forgetDecisions(id);
      const active = await withDeadline(guards.getByName(id).configure(config), timeoutMs, "The push of a key");
      leases.add(id, active.outdatedForMs);
      if (active.revision === config.revision && active.state === config.state) confirmed.push([id, config.version]);
      // The guard has a different configuration. Either a later push has reached the guard first, or D1 was restored to an earlier state.
      else if (++others <= maxOthers) await withDeadline(pushOnce(push, id, leases), timeoutMs, "The push of a key");
    }),
  );
  for (const outcome of outcomes)
    if (outcome.status === "rejected") console.error("a key's guard cannot be reached:", messagesOf(outcome.reason));
  return { confirmed, last: waiting.length < limit ? null : (waiting.at(-1)?.id ?? null) };
}

/** Notes that guards have confirmed changes. Called after the leases of before have ended, so that a repeated request waits for them, too. */
async function confirm(db: Db, confirmed: readonly Confirmed[]): Promise<void> {
  if (confirmed.length === 0) return;
  await db.run(sql`UPDATE api_keys SET pushed_version = pushed.value ->> 1 FROM json_each(${JSON.stringify(confirmed)}) AS pushed
    WHERE api_keys.id = pushed.value ->> 0 AND pushed_version < pushed.value ->> 1`);
}
