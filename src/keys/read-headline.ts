import { asc } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { hourMs, hourStart } from "../clock.ts";
import { apiKeys } from "../db/schema.ts";
import { readCountedKeys } from "../usage/counted-keys.ts";
import type { UpToDate } from "../usage/fold-marks.ts";
import type { RateLimit } from "./admission.ts";
import { askGuard, type Guards } from "./guards.ts";
import { isLive, readKeyRow } from "./read-keys.ts";

/** The rate-limit use that stands for an account, and the key that it is of: null where the account has none. */
export interface Headline extends RateLimit {
  keyId: string | null;
  keyName: string | null;
}

type Candidate = Pick<typeof apiKeys.$inferSelect, "id" | "name" | "hourlyLimit">;

/**
 * The live key with the highest share of its limit used in this hour; of equals the one with more requests, then the older.
 * The figures are the guards' own. Only guards of keys that the log has seen in this hour are asked: the others have counted nothing.
 */
export async function readHeadline(reading: UpToDate<Reading & { guards: Guards }>): Promise<Headline> {
  const { db, actor, now } = reading;
  const counted = await readCountedKeys(reading);
  const keys = await db
    .select({ id: apiKeys.id, name: apiKeys.name, hourlyLimit: apiKeys.hourlyLimit })
    .from(apiKeys)
    .where(isLive(actor.accountId, now))
    .orderBy(asc(apiKeys.createdAt), asc(apiKeys.id));
  const uses = await Promise.all(keys.map((key) => (counted.has(key.id) ? usedOf(reading, key) : unused(key, now))));
  const byShare = (a: Headline, b: Headline) => b.used / b.limit - a.used / a.limit || b.used - a.used;
  return uses.toSorted(byShare)[0] ?? { keyId: null, keyName: null, limit: 5000, used: 0, resetsAt: hourStart(now) + hourMs };
}

/** The rate-limit use of one key. Throws `not_found`. */
export async function readKeyRateLimit(reading: Reading & { guards: Guards }, keyId: string): Promise<Headline> {
  return usedOf(reading, await readKeyRow(reading, keyId));
}

async function usedOf({ guards, now }: { guards: Guards; now: number }, key: Candidate): Promise<Headline> {
  const rateLimit = await askGuard(guards, key.id, (guard) => guard.rateLimit());
  return rateLimit ? { ...rateLimit, keyId: key.id, keyName: key.name } : unused(key, now);
}

const unused = (key: Candidate, now: number): Headline => ({
  keyId: key.id,
  keyName: key.name,
  limit: key.hourlyLimit,
  used: 0,
  resetsAt: hourStart(now) + hourMs,
});
