import { and, count, eq, isNotNull, isNull, sql } from "drizzle-orm";
import { members, recoveryCodes } from "../db/areas/identity/tables.ts";
import { requireInBatch } from "../db/batch-condition.ts";
import type { Db } from "../db/client.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import { inBatches } from "../lib/in-batches.ts";
import { auditEntry } from "../outbox/audit.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import { isOneTooMany, maxOwn, mayStoreOwn } from "./audit/own-sign-in.ts";
import type { Member } from "./member.ts";
import { type Acting, byRecoveryCode, endSessionsWith, type Proof } from "./sessions.ts";

export const codesPerMember = 8;
/** The characters of a recovery code, without letters and digits that look alike. */
const alphabet = "23456789abcdefghjkmnpqrstuvwxyz";
const groups = 5;
const groupLength = 5;

function newCode(): string {
  const letters = Array.from({ length: groups * groupLength }, () => {
    for (;;) {
      const [byte = 255] = crypto.getRandomValues(new Uint8Array(1));
      // Rejects the highest byte values, so that all characters are equally likely.
      if (byte < 256 - (256 % alphabet.length)) return alphabet[byte % alphabet.length];
    }
  });
  return inBatches(letters, groupLength)
    .map((group) => group.join(""))
    .join("-");
}

/** Returns the hash of a recovery code. Upper or lower case, spaces and hyphens do not change the hash. */
const hashOfCode = (code: string): string => hashOf(code.toLowerCase().replaceAll(/[^0-9a-z]/g, ""));

/** Returns eight new recovery codes of 124 random bits each, and the rows that store their hashes. */
export function newRecoveryCodes(memberId: string): { codes: string[]; rows: (typeof recoveryCodes.$inferInsert)[] } {
  const codes = Array.from({ length: codesPerMember }, newCode);
  return { codes, rows: codes.map((code) => ({ codeHash: hashOfCode(code), memberId, usedAt: null })) };
}

/**
 * Marks an unused recovery code as used. Returns the member that the code belongs to. Returns null if there is no such code or the code was
 * used before. If `memberId` is set, accepts only a code of that member.
 */
export async function spendRecoveryCode(db: Db, code: string, now: number, memberId?: string): Promise<Proof | null> {
  const spent = await db
    .update(recoveryCodes)
    .set({ usedAt: now })
    .where(
      and(
        eq(recoveryCodes.codeHash, hashOfCode(code)),
        isNull(recoveryCodes.usedAt),
        memberId === undefined ? undefined : eq(recoveryCodes.memberId, memberId),
        sql`EXISTS (SELECT 1 FROM members WHERE members.id = member_id AND removed_at IS NULL)`,
      ),
    )
    .returning({ memberId: recoveryCodes.memberId, credential: recoveryCodes.codeHash });
  if (!wrote(spent) || !spent[0]) return null;
  const [member] = await db.select().from(members).where(eq(members.id, spent[0].memberId));
  return member ? { member, how: byRecoveryCode, credential: spent[0].credential } : null;
}

/** Returns the member that a used recovery code belongs to. Returns null if the code was not used or the member was removed. */
export async function readMemberOfSpentCode(db: Db, code: string): Promise<Member | null> {
  const [found] = await db
    .select({ member: members })
    .from(recoveryCodes)
    .innerJoin(members, eq(members.id, recoveryCodes.memberId))
    .where(and(eq(recoveryCodes.codeHash, hashOfCode(code)), isNotNull(recoveryCodes.usedAt), isNull(members.removedAt)));
  return found?.member ?? null;
}

/** Returns the number of unused recovery codes of a member. */
export async function countRecoveryCodes(db: Db, memberId: string): Promise<number> {
  const [left] = await db
    .select({ count: count() })
    .from(recoveryCodes)
    .where(and(eq(recoveryCodes.memberId, memberId), isNull(recoveryCodes.usedAt)));
  return left?.count ?? 0;
}

/**
 * Replaces the recovery codes of the acting member and returns eight new codes, which are shown only once. Ends the sessions that were opened
 * or last confirmed with an earlier code (`endSessionsWith`). Throws `limit_reached` if the member
 * created codes too many times in the last 24 hours. Deletes the old codes even if the function throws `limit_reached`, because another
 * person may have the old codes.
 */
export async function replaceRecoveryCodes(context: WriteContext, acting: Acting): Promise<string[]> {
  const { db, commit } = context;
  const { member } = acting;
  const { codes, rows } = newRecoveryCodes(member.id);
  const before = sql`SELECT code_hash FROM recovery_codes WHERE member_id = ${member.id}`;
  const endBefore = [endSessionsWith(db, acting, before), db.delete(recoveryCodes).where(eq(recoveryCodes.memberId, member.id))];
  const target = { type: "member", id: member.id, name: member.name } as const;
  try {
    await commit({
      whenFull: "reserve",
      events: [],
      audit: [auditEntry(context, "recovery_codes.made", target)],
      statements: {
        required: requireInBatch(db, mayStoreOwn(context, "recovery_codes.made")),
        endBefore,
        made: db.insert(recoveryCodes).values(rows),
      },
    });
    return codes;
  } catch (error) {
    if (!isOneTooMany(error, "recovery_codes.made")) throw error;
    await commit({
      whenFull: "write",
      events: [],
      audit: [auditEntry(context, "recovery_codes.ended", target)],
      statements: { endBefore },
      when: sql`EXISTS (SELECT 1 FROM recovery_codes WHERE member_id = ${member.id})`,
    });
    const max = maxOwn["recovery_codes.made"];
    throw new Failure(
      "limit_reached",
      `You made recovery codes ${max} times in 24 hours. Your latest recovery codes no longer work. Create new codes tomorrow.`,
      { cause: error },
    );
  }
}
