import { and, eq, lt, sql } from "drizzle-orm";
import { secondMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { apiKeys } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import type { KeyGuard } from "./key-guard.ts";
import { readConfig } from "./read-config.ts";

export type Guards = DurableObjectNamespace<KeyGuard>;

const patienceMs = 5 * secondMs;
const pauseMs = 100;

/**
 * Brings a stored change of a key to its guard. When this returns, the change holds for every request that starts from now
 * on. Throws `unavailable` where the guard has not confirmed for 5 s: the change is stored, and the cron job goes on pushing.
 */
export async function pushKey({ db, guards }: { db: Db; guards: Guards }, keyId: string): Promise<void> {
  const giveUpAt = Date.now() + patienceMs;
  for (;;) {
    try {
      return await pushOnce({ db, guards }, keyId);
    } catch (cause) {
      if (Date.now() + pauseMs > giveUpAt) {
        throw new Failure(
          "unavailable",
          "The change is stored, but it is not yet in force. It will be as soon as the key's guard can be reached.",
          { cause },
        );
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

async function pushOnce({ db, guards }: { db: Db; guards: Guards }, keyId: string): Promise<void> {
  const config = await readConfig(db, keyId);
  if (!config) return;
  await guards.getByName(keyId).configure(config);
  await db
    .update(apiKeys)
    .set({ pushedVersion: config.version })
    .where(and(eq(apiKeys.id, keyId), lt(apiKeys.pushedVersion, config.version)));
}

/** Pushes every key whose guard has not confirmed its latest version, at most `limit` of them. Answers how many were reached. */
export async function pushWaitingKeys({ db, guards }: { db: Db; guards: Guards }, limit: number): Promise<number> {
  const waiting = await db.select({ id: apiKeys.id }).from(apiKeys).where(sql`pushed_version < version`).limit(limit);
  const outcomes = await Promise.allSettled(waiting.map(({ id }) => pushOnce({ db, guards }, id)));
  for (const outcome of outcomes) if (outcome.status === "rejected") console.error("a key's guard cannot be reached", outcome.reason);
  return outcomes.filter((outcome) => outcome.status === "fulfilled").length;
}
