import { sql } from "drizzle-orm";
import type { Origin } from "../accounts/actor.ts";
import { isWithinReserve } from "../accounts/storage.ts";
import { signInFailures } from "../db/areas/monitoring/tables.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { storeOperation } from "../identity/audit/operator-audit.ts";
import type { Member } from "../identity/member.ts";
import { readMemberOfSpentCode, spendRecoveryCode } from "../identity/recovery-codes.ts";
import type { Proof } from "../identity/sessions.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { idBound } from "../lib/ids.ts";
import { networkOf } from "../lib/net/network.ts";
import { minuteMs } from "../lib/time/clock.ts";
import { auditEntry, storeAudit } from "../outbox/audit.ts";

// Wrong operator tokens and wrong recovery codes are counted for `/metrics` and recorded in an audit log. Sign-in attempts are rate limited by
// source. The storage for failures is limited, because anyone can send wrong credentials. Attempts are counted in a fixed number of rows. For
// each kind of credential, an account gets at most one audit entry per minute.

type Credential = (typeof signInFailures.credential.enumValues)[number];

type KnownMember = Pick<Member, "accountId" | "id" | "name">;

/** The sender of a sign-in attempt. `member`: the signed-in member who confirms their identity, or null if the sender is not signed in. */
interface Source {
  credential: Credential;
  member: KnownMember | null;
  from: Origin;
}

/** The maximum number of attempts of one source in a clock minute. */
export const maxAttemptsPerMinute = 10;
export const tooManyCodes = "Too many wrong codes came from your address. Wait a minute, then try again.";
export const slots = 4096;
/** The maximum number of sources that an isolate remembers in a clock minute. */
const maxCached = 1000;

const nameOf = ({ credential, member, from }: Source) => hashOf(`${credential} ${member?.id ?? ""} ${networkOf(from.ip)}`).slice(0, 32);
const slotOf = (name: string) => Number.parseInt(name.slice(0, 8), 16) % slots;

/** The attempts that this isolate has counted in the current minute. These counts save D1 queries during a flood of attempts. */
const cached = { minute: 0, attempts: new Map<string, number>() };

function cachedAttempts(name: string, minute: number): number {
  if (cached.minute !== minute) Object.assign(cached, { minute, attempts: new Map() });
  return cached.attempts.get(name) ?? 0;
}

/**
 * Counts a sign-in attempt of a source. Returns whether the attempt is one of the source's first ten attempts in the clock minute. Several
 * sources can share a row of `sign_in_attempts`. If another source takes over a row, the count of the previous source is lost.
 */
async function countAttempt(db: Db, source: Source, now: number): Promise<boolean> {
  const [name, minute] = [nameOf(source), Math.floor(now / minuteMs)];
  const known = cachedAttempts(name, minute);
  if (known >= maxAttemptsPerMinute) return false;
  // Correct operator tokens are never counted, so this check cannot deny a correct operator token. If an isolate already remembers 1,000 sources,
  // the isolate denies a wrong token from a new source without a D1 query.
  if (source.credential === "operator_token" && known === 0 && cached.attempts.size >= maxCached) return false;
  const [row] = await db.all<{ attempts: number }>(
    sql`INSERT INTO sign_in_attempts (slot, source, minute, attempts) VALUES (${slotOf(name)}, ${name}, ${minute}, 1)
      ON CONFLICT (slot) DO UPDATE SET attempts = CASE WHEN source = excluded.source AND minute = excluded.minute THEN attempts + 1 ELSE 1 END,
        source = excluded.source, minute = excluded.minute
      RETURNING attempts`,
  );
  const attempts = row?.attempts ?? 0;
  if (known > 0 || cached.attempts.size < maxCached) cached.attempts.set(name, attempts);
  return attempts <= maxAttemptsPerMinute;
}

/** After a correct credential, resets the source's number of counted attempts. */
async function forgetAttempts(db: Db, source: Source): Promise<void> {
  const name = nameOf(source);
  cached.attempts.delete(name);
  await db.run(sql`DELETE FROM sign_in_attempts WHERE slot = ${slotOf(name)} AND source = ${name}`);
}

/**
 * Counts a wrong credential, and records the failure in the audit log of the owner's account. If the owner of the credential is unknown, records
 * the failure in the operator audit.
 */
async function recordFailure(db: Db, { credential, member, from }: Source, now: number, owner: KnownMember | null): Promise<void> {
  const action = `${credential}.refused`;
  const minuteStart = now - (now % minuteMs);
  const counted: Statement = raw(
    db,
    sql`INSERT INTO sign_in_failures (credential, failures) VALUES (${credential}, 1) ON CONFLICT (credential) DO UPDATE SET failures = failures + 1`,
  );
  if (owner === null) {
    const isFirst = sql`NOT EXISTS (SELECT 1 FROM operator_audit WHERE id >= ${idBound("opr", minuteStart)} AND action = ${action})`;
    await db.batch([counted, storeOperation(db, { now, operator: "unknown", action, details: { ...from } }, isFirst)]);
    return;
  }
  const { accountId, id, name } = owner;
  const by = member ? ({ type: "member", id: member.id } as const) : ({ type: "system", id: null } as const);
  const entry = auditEntry({ actor: { accountId, by, from }, now }, action, { type: "member", id, name });
  const isFirst = sql`NOT EXISTS (SELECT 1 FROM audit WHERE account_id = ${accountId} AND id >= ${idBound("aud", minuteStart)} AND action = ${action})`;
  await db.batch([counted, ...storeAudit(db, [entry], sql`${isFirst} AND ${isWithinReserve(accountId)}`)]);
}

/** Counts and records a wrong operator token. Returns whether the source has sent more than ten wrong tokens in the current clock minute. */
export async function denyOperatorToken(db: Db, from: Origin, now: number): Promise<{ isTooMany: boolean }> {
  const source: Source = { credential: "operator_token", member: null, from };
  if (!(await countAttempt(db, source, now))) return { isTooMany: true };
  await recordFailure(db, source, now, null);
  return { isTooMany: false };
}

/** The result of an attempt to use a recovery code. */
export type Spent = { proof: Proof } | { refused: "wrong" | "too many" };

/**
 * Uses up a recovery code. If the code is wrong, counts and records the failure. After ten attempts by a source in a clock minute, further codes
 * from that source are rejected without a check. `confirming`: the member who must own the code, or null if the code may belong to any member.
 */
export async function trySpendingRecoveryCode(
  db: Db,
  code: string,
  now: number,
  { confirming, from }: { confirming: Member | null; from: Origin },
): Promise<Spent> {
  const source: Source = { credential: "recovery_code", member: confirming, from };
  if (!(await countAttempt(db, source, now))) return { refused: "too many" };
  const proof = await spendRecoveryCode(db, code, now, confirming?.id);
  if (proof) {
    await forgetAttempts(db, source);
    return { proof };
  }
  try {
    // A used recovery code still identifies the member who owns the code.
    await recordFailure(db, source, now, confirming ?? (await readMemberOfSpentCode(db, code)));
  } catch (error) {
    // If the failure cannot be recorded, for example because the database is full, the wrong code is still rejected.
    console.error("a wrong recovery code was not recorded:", messagesOf(error));
  }
  return { refused: "wrong" };
}

/** Returns how many wrong credentials of each kind were received. */
export async function readSignInFailures(db: Db): Promise<Record<Credential, number>> {
  const rows = await db.select().from(signInFailures);
  return { operator_token: 0, recovery_code: 0, ...Object.fromEntries(rows.map(({ credential, failures }) => [credential, failures])) };
}
