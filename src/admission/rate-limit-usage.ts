import { and, asc, eq } from "drizzle-orm";
import { limitCeiling } from "../accounts/account.ts";
import type { LogReadContext, ReadContext } from "../accounts/actor.ts";
import { Failure } from "../errors/failure.ts";
import { apiKeys } from "../keys/tables.ts";
import { hourMs, hourStart } from "../time/clock.ts";
import { readCountedKeys } from "../usage/counted-keys.ts";
import type { UpToDate } from "../usage/refresh-roll-ups.ts";
import type { RateLimit } from "./admission.ts";
import { askGuard, type Guards } from "./guards.ts";
import { isLive } from "./live-keys.ts";

/** Rate Limit Usage: the requests counted in the current hour, and the key that they are of: null where the account has none. */
export interface RateLimitUsage extends RateLimit {
  keyId: string | null;
  keyName: string | null;
}

type LimitedKey = Pick<typeof apiKeys.$inferSelect, "id" | "name" | "hourlyLimit">;
const limitedKey = { id: apiKeys.id, name: apiKeys.name, hourlyLimit: apiKeys.hourlyLimit };

/**
 * That of each live key of the account, the oldest first. The figures are the guards' own. Only guards of keys that the log has seen
 * in this hour are asked: the others have counted nothing.
 */
export async function readLiveUsages(reading: UpToDate<LogReadContext & { guards: Guards }>): Promise<RateLimitUsage[]> {
  const { db, actor, now } = reading;
  const counted = await readCountedKeys(reading);
  const keys = await db
    .select(limitedKey)
    .from(apiKeys)
    .where(isLive(actor.accountId, now))
    .orderBy(asc(apiKeys.createdAt), asc(apiKeys.id));
  return Promise.all(keys.map((key) => (counted.has(key.id) ? usageOf(reading, key) : unused(key, now))));
}

/** That of the account: of its live key with the highest share of its limit used in this hour; of equals the one with more requests, then the older. */
export async function readHighestUsage(reading: UpToDate<LogReadContext & { guards: Guards }>): Promise<RateLimitUsage> {
  return highestOf(await readLiveUsages(reading), reading.now);
}

/** The highest of several, as above. */
export function highestOf(usages: readonly RateLimitUsage[], now: number): RateLimitUsage {
  const byShare = (a: RateLimitUsage, b: RateLimitUsage) => b.used / b.limit - a.used / a.limit || b.used - a.used;
  return usages.toSorted(byShare)[0] ?? { keyId: null, keyName: null, limit: limitCeiling, used: 0, resetsAt: hourStart(now) + hourMs };
}

/** That of one key. Throws `not_found`. */
export async function readKeyUsage(reading: ReadContext & { guards: Guards }, keyId: string): Promise<RateLimitUsage> {
  const [key] = await reading.db
    .select(limitedKey)
    .from(apiKeys)
    .where(and(eq(apiKeys.accountId, reading.actor.accountId), eq(apiKeys.id, keyId)));
  if (!key) throw new Failure("not_found", "There is no such key.");
  return usageOf(reading, key);
}

async function usageOf({ guards, now }: { guards: Guards; now: number }, key: LimitedKey): Promise<RateLimitUsage> {
  const rateLimit = await askGuard(guards, key.id, (guard) => guard.rateLimit());
  return rateLimit ? { ...rateLimit, keyId: key.id, keyName: key.name } : unused(key, now);
}

const unused = (key: LimitedKey, now: number): RateLimitUsage => ({
  keyId: key.id,
  keyName: key.name,
  limit: key.hourlyLimit,
  used: 0,
  resetsAt: hourStart(now) + hourMs,
});
