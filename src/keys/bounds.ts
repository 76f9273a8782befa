import { count, eq, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { accounts } from "../accounts/tables.ts";
import { isLive } from "../admission/live-keys.ts";
import { holdsNow } from "../db/batch-condition.ts";
import type { Db } from "../db/client.ts";
import { Failure, type FieldError } from "../errors/failure.ts";
import { dayMs } from "../time/clock.ts";
import { apiKeys } from "./tables.ts";

// The bounds of an account's keys, for everyone who creates or changes them.

export const maxLiveKeys = 50;

const countLive = ({ db, actor, now }: ReadContext) => db.select({ live: count() }).from(apiKeys).where(isLive(actor.accountId, now));

/** Keys that an account may make in 24 hours. The rows of revoked and expired keys stay, and some queries read all of them. */
export const maxMade = 1_000;
/** Keys beyond `maxMade` that admins may still make, and owners twice as many: so nobody stops a higher role by making keys. */
export const reservedForRole = 100;

/** The condition, for D1, that the actor may make one more key. The operator always may. */
export const mayMakeMore = ({ actor, now }: Pick<ReadContext, "actor" | "now">): SQL => {
  if (actor.by.type === "operator") return sql`true`;
  const most = sql`(SELECT ${maxMade} + ${reservedForRole} * coalesce(max(CASE role WHEN 'owner' THEN 2 WHEN 'admin' THEN 1 ELSE 0 END), 0)
    FROM members WHERE id = ${actor.by.id})`;
  const made = sql`SELECT count(*) FROM (SELECT 1 FROM api_keys WHERE account_id = ${actor.accountId} AND created_at > ${now - dayMs}
    LIMIT ${maxMade + 2 * reservedForRole})`;
  return sql`(${made}) < ${most}`;
};

/** The condition, for D1, that the account may have one more live key. */
export const hasRoom = (reading: ReadContext): SQL => sql`(${countLive(reading)}) < ${maxLiveKeys}`;

export const noRoom = () =>
  new Failure("limit_reached", `An account may have ${maxLiveKeys} live keys. Revoke one that is no longer used.`);

const tooManyMade = () =>
  new Failure(
    "limit_reached",
    `An account may make ${maxMade.toLocaleString("en")} keys in 24 hours. Its admins and owners may make some more. Rotate a key instead, or wait.`,
  );

/** Throws `limit_reached` where the account has made all the keys that it may make in 24 hours. */
export async function requireMayMake(reading: ReadContext): Promise<void> {
  if (!(await holdsNow(reading.db, mayMakeMore(reading)))) throw tooManyMade();
}

/** Throws `limit_reached` where the account has all the live keys that it may have. */
export async function requireRoom(reading: ReadContext): Promise<void> {
  const [counted] = await countLive(reading);
  if (!counted || counted.live >= maxLiveKeys) throw noRoom();
}

/** The highest hourly limit that a key of the account may have. Throws `not_found`. */
export async function readCeiling(db: Db, accountId: string): Promise<number> {
  const [account] = await db.select({ limitCeiling: accounts.limitCeiling }).from(accounts).where(eq(accounts.id, accountId));
  if (!account) throw new Failure("not_found", "There is no such account.");
  return account.limitCeiling;
}

/** Throws `invalid_body`, which names both, for a limit that the account may not have and an expiry that has passed already. */
export async function requireBounds(
  { db, actor, now }: ReadContext,
  { hourlyLimit, expiresAt }: { hourlyLimit?: number | undefined; expiresAt?: number | null | undefined },
): Promise<void> {
  const faults: FieldError[] = [];
  const ceiling = hourlyLimit === undefined ? 0 : await readCeiling(db, actor.accountId);
  if (hourlyLimit !== undefined && hourlyLimit > ceiling) {
    faults.push({ pointer: "/hourly_limit", code: "too_big", detail: `Must be at most ${ceiling}, the account's ceiling.` });
  }
  if (typeof expiresAt === "number" && expiresAt <= now) {
    faults.push({ pointer: "/expires_at", code: "too_small", detail: "Must lie in the future." });
  }
  if (faults.length > 0) throw new Failure("invalid_body", "The body has members that are not valid.", { faults });
}
