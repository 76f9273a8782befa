import { count, eq, type SQL, sql } from "drizzle-orm";
import { isOfTeam, type ReadContext } from "../accounts/actor.ts";
import { isLiveKey } from "../admission/live-keys.ts";
import type { Limit } from "../budget/limits.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { holdsNow } from "../db/batch-condition.ts";
import type { Db } from "../db/client.ts";
import { Failure, type FieldError } from "../lib/errors/failure.ts";
import { dayMs } from "../lib/time/clock.ts";

// Limits on the keys of an account, checked when a key is created or changed.

const countLive = ({ db, actor, now }: ReadContext) => db.select({ live: count() }).from(apiKeys).where(isLiveKey(actor.accountId, now));

/**
 * The maximum number of keys that an account may create in 24 hours. The rows of revoked and expired keys are kept, and some queries read
 * all of these rows.
 */
export const maxCreatedPerDay = 1_000;
/**
 * A reserve for admins: the number of keys per 24 hours in addition to `maxCreatedPerDay`. The reserve for owners is twice as large.
 * Members therefore cannot use up the keys that a higher role may create.
 */
export const reservedForRole = 100;

/**
 * Returns an SQL condition. The condition is true if the limit per 24 hours allows the actor to create one more key. For the operator, the
 * condition is always true.
 */
export const mayMakeMore = ({ actor, now }: Pick<ReadContext, "actor" | "now">): SQL => {
  if (isOfTeam(actor.by)) return sql`true`;
  const max = sql`(SELECT ${maxCreatedPerDay} + ${reservedForRole} * coalesce(max(CASE role WHEN 'owner' THEN 2 WHEN 'admin' THEN 1 ELSE 0 END), 0)
    FROM members WHERE id = ${actor.by.id})`;
  const made = sql`SELECT count(*) FROM (SELECT 1 FROM api_keys WHERE account_id = ${actor.accountId} AND created_at > ${now - dayMs}
    LIMIT ${maxCreatedPerDay + 2 * reservedForRole})`;
  return sql`(${made}) < ${max}`;
};

/** Returns an SQL condition that is true if the account has room for `count` more live keys. */
export const hasRoomForKey = (context: ReadContext, count = 1): SQL =>
  sql`(${countLive(context)}) + ${count} <= (SELECT max_live_keys FROM accounts WHERE id = ${context.actor.accountId})`;

/** Returns the number of live keys for which the account has room. */
export async function roomForKeys(context: ReadContext): Promise<number> {
  const [row] = await context.db.all<{ room: number }>(
    sql`SELECT max_live_keys - (${countLive(context)}) AS room FROM accounts WHERE id = ${context.actor.accountId}`,
  );
  return Math.max(0, row?.room ?? 0);
}

export const noRoom = () =>
  new Failure("limit_reached", "The account has as many live keys as it may have. Revoke a key that you no longer use.");

const tooManyMade = () =>
  new Failure(
    "limit_reached",
    `An account may create ${maxCreatedPerDay.toLocaleString("en")} keys in 24 hours. Its admins and owners may create some more. Rotate a key instead, or wait.`,
  );

/** If the limit per 24 hours does not allow the actor to create another key, throws `limit_reached`. */
export async function requireMayMake(context: ReadContext): Promise<void> {
  if (!(await holdsNow(context.db, mayMakeMore(context)))) throw tooManyMade();
}

/** Throws `limit_reached` if the account already has the maximum number of live keys. */
export async function requireRoom(context: ReadContext): Promise<void> {
  if (!(await holdsNow(context.db, hasRoomForKey(context)))) throw noRoom();
}

/** What the account says about its keys. `highest`: the highest limits of a key, beside the hourly limit. */
export interface KeyTerms {
  ceiling: number;
  highest: Limit[];
  defaultScopes: string[] | null;
}

/** Returns an SQL condition that is true while the account says the same about the limits of its keys. */
export const hasKeyTerms = (accountId: string, { ceiling, highest }: KeyTerms): SQL =>
  sql`EXISTS (SELECT 1 FROM accounts WHERE id = ${accountId} AND limit_ceiling = ${ceiling} AND key_limits = ${JSON.stringify(highest)})`;

/** Returns what the account says about its keys. Throws `not_found` if there is no such account. */
export async function readKeyTerms(db: Db, accountId: string): Promise<KeyTerms> {
  const { limitCeiling: ceiling, keyLimits: highest, defaultScopes } = accounts;
  const [terms] = await db.select({ ceiling, highest, defaultScopes }).from(accounts).where(eq(accounts.id, accountId));
  if (!terms) throw new Failure("not_found", "There is no such account.");
  return terms;
}

/**
 * Throws `invalid_body` if a limit exceeds what the account allows, or if the expiry is in the past. The error names each invalid field.
 */
export async function requireBounds(
  { db, actor, now }: ReadContext,
  {
    hourlyLimit,
    otherLimits,
    expiresAt,
  }: { hourlyLimit?: number | undefined; otherLimits?: readonly Limit[] | undefined; expiresAt?: number | null | undefined },
): Promise<void> {
  const fieldErrors: FieldError[] = [];
  const isLimited = hourlyLimit !== undefined || otherLimits !== undefined;
  const { ceiling, highest } = isLimited ? await readKeyTerms(db, actor.accountId) : { ceiling: 0, highest: [] };
  if (hourlyLimit !== undefined && hourlyLimit > ceiling) {
    fieldErrors.push({ pointer: "/hourly_limit", code: "too_big", detail: `Must be at most ${ceiling}, the account's ceiling.` });
  }
  const allowed = highest.find(({ per, limit }) => otherLimits?.some((each) => each.per === per && each.limit > limit));
  if (allowed) {
    const detail = `Must be at most ${allowed.limit} per ${allowed.per}, the highest limit of the account's keys.`;
    fieldErrors.push({ pointer: "/limits", code: "too_big", detail });
  }
  if (typeof expiresAt === "number" && expiresAt <= now) {
    fieldErrors.push({ pointer: "/expires_at", code: "too_small", detail: "Must be in the future." });
  }
  if (fieldErrors.length > 0) throw new Failure("invalid_body", "The body has members that are not valid.", { fieldErrors });
}
