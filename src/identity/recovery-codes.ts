import { and, count, eq, isNotNull, isNull, sql } from "drizzle-orm";
import { audited } from "../audit/audit.ts";
import { isOneTooMany, maxOwn, mayStoreOwn } from "../audit/own-sign-in.ts";
import { hashOf } from "../crypto/hash.ts";
import { requireInBatch } from "../db/batch-condition.ts";
import type { Db } from "../db/client.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import type { WriteContext } from "../webhooks/outbox.ts";
import type { Member } from "./member.ts";
import { members, recoveryCodes } from "./tables.ts";

export const codesOfMember = 8;
/** Without letters and digits that look alike. */
const alphabet = "23456789abcdefghjkmnpqrstuvwxyz";
const groups = 5;
const groupLength = 5;

function newCode(): string {
  const letters = Array.from({ length: groups * groupLength }, () => {
    for (;;) {
      const [byte = 255] = crypto.getRandomValues(new Uint8Array(1));
      // No letter more often than another.
      if (byte < 256 - (256 % alphabet.length)) return alphabet[byte % alphabet.length];
    }
  });
  return Array.from({ length: groups }, (_, group) => letters.slice(group * groupLength, (group + 1) * groupLength).join("")).join("-");
}

/** What a code is known by, however it was typed. */
const hashOfCode = (code: string): string => hashOf(code.toLowerCase().replaceAll(/[^0-9a-z]/g, ""));

/** Eight codes of 124 bits, and the rows that keep their hashes. */
export function newRecoveryCodes(memberId: string): { codes: string[]; rows: (typeof recoveryCodes.$inferInsert)[] } {
  const codes = Array.from({ length: codesOfMember }, newCode);
  return { codes, rows: codes.map((code) => ({ codeHash: hashOfCode(code), memberId, usedAt: null })) };
}

/** Spends a code, once. Answers whose it is; null where it is none, or was spent. `memberId`: only this member's. */
export async function spendRecoveryCode(db: Db, code: string, now: number, memberId?: string): Promise<Member | null> {
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
    .returning({ memberId: recoveryCodes.memberId });
  if (!wrote(spent) || !spent[0]) return null;
  const [member] = await db.select().from(members).where(eq(members.id, spent[0].memberId));
  return member ?? null;
}

/** Returns whose code it was, if it was spent and the member is still there. */
export async function readMemberOfSpentCode(db: Db, code: string): Promise<Member | null> {
  const [found] = await db
    .select({ member: members })
    .from(recoveryCodes)
    .innerJoin(members, eq(members.id, recoveryCodes.memberId))
    .where(and(eq(recoveryCodes.codeHash, hashOfCode(code)), isNotNull(recoveryCodes.usedAt), isNull(members.removedAt)));
  return found?.member ?? null;
}

/** How many codes a member has left. */
export async function countRecoveryCodes(db: Db, memberId: string): Promise<number> {
  const [left] = await db
    .select({ count: count() })
    .from(recoveryCodes)
    .where(and(eq(recoveryCodes.memberId, memberId), isNull(recoveryCodes.usedAt)));
  return left?.count ?? 0;
}

/**
 * Gives a member eight new codes, shown this once, and ends the ones before. Throws `limit_reached` where the member has made too many; the ones before
 * end all the same, since somebody else may have them.
 */
export async function replaceRecoveryCodes(writing: WriteContext, member: Pick<Member, "id" | "name">): Promise<string[]> {
  const { db, commit } = writing;
  const { codes, rows } = newRecoveryCodes(member.id);
  const endBefore = db.delete(recoveryCodes).where(eq(recoveryCodes.memberId, member.id));
  const target = { type: "member", id: member.id, name: member.name } as const;
  try {
    await commit({
      evenWhereFull: "within the reserve",
      result: null,
      events: [],
      audit: [audited(writing, "recovery_codes.made", target)],
      statements: [requireInBatch(db, mayStoreOwn(writing, "recovery_codes.made")), endBefore, db.insert(recoveryCodes).values(rows)],
    });
    return codes;
  } catch (error) {
    if (!isOneTooMany(error, "recovery_codes.made")) throw error;
    await commit({
      evenWhereFull: true,
      result: null,
      events: [],
      audit: [audited(writing, "recovery_codes.ended", target)],
      statements: [endBefore],
      when: sql`EXISTS (SELECT 1 FROM recovery_codes WHERE member_id = ${member.id})`,
    });
    const most = maxOwn["recovery_codes.made"];
    throw new Failure(
      "limit_reached",
      `You made recovery codes ${most} times in 24 hours. The last ones have ended. Make new ones tomorrow.`,
      {
        cause: error,
      },
    );
  }
}
