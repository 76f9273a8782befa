import { and, eq, lt, sql } from "drizzle-orm";
import type { Guards } from "../admission/guards.ts";
import { readConfig } from "../admission/read-config.ts";
import { rememberedRefusals } from "../admission/remembered-refusals.ts";
import { secondMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { apiKeys } from "../db/schema.ts";
import { withDeadline } from "../deadline.ts";
import { Failure } from "../errors.ts";
import { adoptConfig } from "./reconcile-key.ts";

const patienceMs = 5 * secondMs;
const pauseMs = 100;

interface Push {
  db: Db;
  guards: Guards;
}

/**
 * Brings a stored change of a key to its guard. When this returns, the change holds for every request that starts from now
 * on. Throws `unavailable` where the guard has not confirmed for 5 s: the change is stored, and the clock goes on pushing.
 */
export async function pushKey(push: Push, keyId: string): Promise<void> {
  try {
    await withDeadline(pushUntilConfirmed(push, keyId, Date.now() + patienceMs), patienceMs, "The push of a key");
  } catch (cause) {
    throw new Failure(
      "unavailable",
      "The change is stored, but it is not yet in force. It will be as soon as the key's guard can be reached.",
      { cause },
    );
  }
}

async function pushUntilConfirmed(push: Push, keyId: string, giveUpAt: number): Promise<void> {
  for (;;) {
    try {
      return await pushOnce(push, keyId);
    } catch (error) {
      if (Date.now() + pauseMs > giveUpAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

async function pushOnce({ db, guards }: Push, keyId: string): Promise<void> {
  for (;;) {
    const config = await readConfig(db, keyId);
    if (!config) return;
    const inForce = await guards.getByName(keyId).configure(config);
    rememberedRefusals.forget(keyId, Date.now());
    if (inForce.revision === config.revision && inForce.state === config.state) {
      await db
        .update(apiKeys)
        .set({ pushedVersion: config.version })
        .where(and(eq(apiKeys.id, keyId), lt(apiKeys.pushedVersion, config.version)));
      return;
    }
    const [row] = await db.select().from(apiKeys).where(eq(apiKeys.id, keyId));
    // Where the row has changed meanwhile, a later push was first; where it has not, D1 was set back.
    if (row?.revision === config.revision) await adoptConfig(db, row, inForce);
  }
}

/** Whether a change of this key is stored that its guard has not confirmed. */
export const isWaiting = (key: { version: number; pushedVersion: number }): boolean => key.pushedVersion < key.version;

/** Pushes keys whose guard has not confirmed their latest version: at most `limit`, in no order, so that none can hold up the others. */
export async function pushWaitingKeys(push: Push, limit: number): Promise<void> {
  const waiting = await push.db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(sql`pushed_version < version`)
    .orderBy(sql`random()`)
    .limit(limit);
  const outcomes = await Promise.allSettled(waiting.map(({ id }) => withDeadline(pushOnce(push, id), patienceMs, "The push of a key")));
  for (const outcome of outcomes)
    if (outcome.status === "rejected") console.error("a key's guard cannot be reached:", messagesOf(outcome.reason));
}
