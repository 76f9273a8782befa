import { sql } from "drizzle-orm";
import ipaddr from "ipaddr.js";
import type { Origin } from "../accounts/actor.ts";
import { audited, storeAudit } from "../audit/audit.ts";
import { hashOf } from "../crypto/hash.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import type { Member } from "../identity/member.ts";
import { readMemberOfSpentCode, spendRecoveryCode } from "../identity/recovery-codes.ts";
import { idBound } from "../ids/ids.ts";
import { isWithinReserve } from "../storage/storage.ts";
import { minuteMs } from "../time/clock.ts";
import { storeOperation } from "./operator-audit.ts";
import { signInFailures } from "./tables.ts";

// Wrong operator tokens and recovery codes: counted for /metrics, recorded in an audit log, and bounded for each source. What is stored is
// bounded too, since anybody can send a wrong one. There is a fixed number of rows of attempts, and one audit entry a minute for each kind and
// account.

type Credential = (typeof signInFailures.credential.enumValues)[number];

type KnownMember = Pick<Member, "accountId" | "id" | "name">;

/** Who tries. `member`: who confirms that it is them; null for a stranger. */
interface Source {
  credential: Credential;
  member: KnownMember | null;
  from: Origin;
}

/** Attempts of one source in a clock minute. */
export const maxAttemptsPerMinute = 10;
/** What a person is told who has used them up. */
export const tooManyCodes = "Too many wrong codes came from your address. Wait a minute, then try again.";
export const slots = 4096;
/** Sources that an isolate remembers in a minute. */
const maxRemembered = 1000;

/** The address; of IPv6 the first 64 bits, which one customer of a provider has. */
function networkOf(ip: string | null): string {
  if (ip === null || !ipaddr.isValid(ip)) return "";
  const address = ipaddr.process(ip);
  return address instanceof ipaddr.IPv4 ? address.toString() : address.parts.slice(0, 4).join(":");
}

const nameOf = ({ credential, member, from }: Source) => hashOf(`${credential} ${member?.id ?? ""} ${networkOf(from.ip)}`).slice(0, 32);
const slotOf = (name: string) => Number.parseInt(name.slice(0, 8), 16) % slots;

/** The attempts that this isolate has counted in the minute, so that a flood does not ask D1 for each. */
const remembered = { minute: 0, attempts: new Map<string, number>() };

function attemptsRemembered(name: string, minute: number): number {
  if (remembered.minute !== minute) Object.assign(remembered, { minute, attempts: new Map() });
  return remembered.attempts.get(name) ?? 0;
}

/**
 * Counts an attempt of a source. Returns whether it is one of the first ten of the clock minute. A source shares its row with others: the
 * latest has it, and the count of an earlier one begins again.
 */
async function countAttempt(db: Db, source: Source, now: number): Promise<boolean> {
  const [name, minute] = [nameOf(source), Math.floor(now / minuteMs)];
  const known = attemptsRemembered(name, minute);
  if (known >= maxAttemptsPerMinute) return false;
  // A right token is never counted, so a wrong one of the thousandth source can be refused unasked.
  if (source.credential === "operator_token" && known === 0 && remembered.attempts.size >= maxRemembered) return false;
  const [row] = await db.all<{ attempts: number }>(
    sql`INSERT INTO sign_in_attempts (slot, source, minute, attempts) VALUES (${slotOf(name)}, ${name}, ${minute}, 1)
      ON CONFLICT (slot) DO UPDATE SET attempts = CASE WHEN source = excluded.source AND minute = excluded.minute THEN attempts + 1 ELSE 1 END,
        source = excluded.source, minute = excluded.minute
      RETURNING attempts`,
  );
  const attempts = row?.attempts ?? 0;
  if (known > 0 || remembered.attempts.size < maxRemembered) remembered.attempts.set(name, attempts);
  return attempts <= maxAttemptsPerMinute;
}

/** Forgets the attempts of a source that then came with the right credential. */
async function forgetAttempts(db: Db, source: Source): Promise<void> {
  const name = nameOf(source);
  remembered.attempts.delete(name);
  await db.run(sql`DELETE FROM sign_in_attempts WHERE slot = ${slotOf(name)} AND source = ${name}`);
}

/** Counts a wrong credential, and records it: in the audit log of the account of `owner`, whose credential it was to be, else in the operator's. */
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
  const entry = audited({ actor: { accountId, by, from }, now }, action, { type: "member", id, name });
  const isFirst = sql`NOT EXISTS (SELECT 1 FROM audit WHERE account_id = ${accountId} AND id >= ${idBound("aud", minuteStart)} AND action = ${action})`;
  await db.batch([counted, ...storeAudit(db, [entry], sql`${isFirst} AND ${isWithinReserve(accountId)}`)]);
}

/** Counts and records a wrong operator token. Returns whether the source has sent more than ten in the clock minute. */
export async function refuseOperatorToken(db: Db, from: Origin, now: number): Promise<{ isTooMany: boolean }> {
  const source: Source = { credential: "operator_token", member: null, from };
  if (!(await countAttempt(db, source, now))) return { isTooMany: true };
  await recordFailure(db, source, now, null);
  return { isTooMany: false };
}

/** What came of a recovery code. */
export type Spent = { member: Member } | { refused: "wrong" | "too many" };

/**
 * Spends a recovery code, once. A wrong one is counted and recorded; after ten attempts of its source in a clock minute, no code is looked at.
 * `confirming`: the member whose code it must be; null for anybody's.
 */
export async function trySpendingRecoveryCode(
  db: Db,
  code: string,
  now: number,
  { confirming, from }: { confirming: Member | null; from: Origin },
): Promise<Spent> {
  const source: Source = { credential: "recovery_code", member: confirming, from };
  if (!(await countAttempt(db, source, now))) return { refused: "too many" };
  const member = await spendRecoveryCode(db, code, now, confirming?.id);
  if (member) {
    await forgetAttempts(db, source);
    return { member };
  }
  try {
    // A code that was spent before tells whose it was.
    await recordFailure(db, source, now, confirming ?? (await readMemberOfSpentCode(db, code)));
  } catch (error) {
    // The code is refused all the same: an account may be too full for the entry.
    console.error("a wrong recovery code was not recorded:", messagesOf(error));
  }
  return { refused: "wrong" };
}

/** How many wrong credentials of each kind were sent. */
export async function readSignInFailures(db: Db): Promise<Record<Credential, number>> {
  const rows = await db.select().from(signInFailures);
  return { operator_token: 0, recovery_code: 0, ...Object.fromEntries(rows.map(({ credential, failures }) => [credential, failures])) };
}
