import { and, asc, eq } from "drizzle-orm";
import { limitCeiling } from "../accounts/account.ts";
import type { ReadContext } from "../accounts/actor.ts";
import type { LimitUsage } from "../budget/limits.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import type { RateLimit } from "../guard/decision.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { Failure } from "../lib/errors/failure.ts";
import { hourMs, hourStart } from "../lib/time/clock.ts";
import { readCountedKeys } from "../usage/counted-keys.ts";
import type { LogReadContext } from "../usage/log-context.ts";
import type { UsageSnapshot } from "../usage/usage-snapshot.ts";
import { leases } from "./lease-holder.ts";
import { isLiveKey } from "./live-keys.ts";

/**
 * The figure "Rate Limit Usage": how many requests of a key were counted in the current hour. If the account has no live key, `keyId` and
 * `keyName` are null.
 */
export interface RateLimitUsage extends RateLimit {
  /** What is used of each limit of the key. */
  limits: readonly LimitUsage[];
  keyId: string | null;
  keyName: string | null;
}

type LimitedKey = Pick<typeof apiKeys.$inferSelect, "id" | "name" | "hourlyLimit" | "otherLimits">;
const limitedKey = { id: apiKeys.id, name: apiKeys.name, hourlyLimit: apiKeys.hourlyLimit, otherLimits: apiKeys.otherLimits };

/**
 * Returns the usage of each live key of the account, oldest key first. The numbers come from the guards. The guard of a key is called
 * if the log has a counted request of the current hour, or if the key has a limit per day or month. Any other key has used 0 requests. If the log writer does not
 * respond, all guards are called.
 */
export async function readLiveUsages(context: UsageSnapshot<LogReadContext & { guards: Guards }>): Promise<RateLimitUsage[]> {
  const { db, actor, now } = context;
  const counted = await readCountedKeys(context);
  const keys = await db
    .select(limitedKey)
    .from(apiKeys)
    .where(isLiveKey(actor.accountId, now))
    .orderBy(asc(apiKeys.createdAt), asc(apiKeys.id));
  const isLong = ({ otherLimits }: LimitedKey) => otherLimits.some(({ per }) => per === "day" || per === "month");
  return Promise.all(
    keys.map((key) => (counted === null || counted.has(key.id) || isLong(key) ? usageOf(context, key) : unused(key, now))),
  );
}

/**
 * Returns the usage of the live key that has used the highest share of its limit. If two keys have the same share, `highestOf` chooses
 * between the two keys.
 */
export async function readHighestUsage(context: UsageSnapshot<LogReadContext & { guards: Guards }>): Promise<RateLimitUsage> {
  return highestOf(await readLiveUsages(context), context.now);
}

/**
 * Returns the usage with the highest share of its limit. If two shares are equal, returns the usage with more requests. If the numbers of
 * requests are also equal, returns the usage that is earlier in the list. If the list is empty, returns a usage of 0 requests, with the
 * default ceiling as the limit.
 */
export function highestOf(usages: readonly RateLimitUsage[], now: number): RateLimitUsage {
  const byShare = (a: RateLimitUsage, b: RateLimitUsage) => b.used / b.limit - a.used / a.limit || b.used - a.used;
  return usages.toSorted(byShare)[0] ?? unused({ id: null, name: null, hourlyLimit: limitCeiling }, now);
}

/** The limit that is nearest its end. `key`: the key whose limit it is, or null if all keys of the account share the limit. */
export interface NearestLimit extends LimitUsage {
  key: { id: string; name: string | null } | null;
}

/**
 * Returns the limit with the highest used share. Of limits with the same share, the one that ends later counts. Limits per second and minute are left out, because
 * they refill soon. `shared`: the limits that all keys of the account share.
 */
export function nearestLimit(usages: readonly RateLimitUsage[], shared: readonly LimitUsage[]): NearestLimit | null {
  const ofKeys = usages.flatMap((usage) => usage.limits.map((each) => ({ ...each, key: { id: usage.keyId ?? "", name: usage.keyName } })));
  const all: NearestLimit[] = [...ofKeys, ...shared.map((each) => ({ ...each, key: null }))];
  const shareOf = ({ used, limit }: LimitUsage) => Math.min(1, used / limit);
  return (
    all
      .filter(({ per }) => per !== "second" && per !== "minute")
      .toSorted((a, b) => shareOf(b) - shareOf(a) || b.resetsAt - a.resetsAt)[0] ?? null
  );
}

/** Returns the usage of one key. Throws `not_found` if the account has no such key. */
export async function readKeyUsage(context: ReadContext & { guards: Guards }, keyId: string): Promise<RateLimitUsage> {
  const [key] = await context.db
    .select(limitedKey)
    .from(apiKeys)
    .where(and(eq(apiKeys.accountId, context.actor.accountId), eq(apiKeys.id, keyId)));
  if (!key) throw new Failure("not_found", "There is no such key.");
  return usageOf(context, key);
}

async function usageOf({ guards, now }: { guards: Guards; now: number }, key: LimitedKey): Promise<RateLimitUsage> {
  const returns = leases.takeReturns(key.id);
  const rateLimit = await callGuard(guards, key.id, (guard) => guard.rateLimit(returns)).catch((error: unknown) => {
    leases.keepReturns(key.id, returns);
    throw error;
  });
  return rateLimit ? { ...rateLimit, keyId: key.id, keyName: key.name } : unused(key, now);
}

function unused(
  { id, name, hourlyLimit: limit }: { id: string | null; name: string | null; hourlyLimit: number },
  now: number,
): RateLimitUsage {
  const hour = { limit, used: 0, resetsAt: hourStart(now) + hourMs };
  return { ...hour, limits: [{ per: "hour", ...hour }], keyId: id, keyName: name };
}
