import { and, desc, eq, gt, inArray, isNull, ne, type SQL, sql } from "drizzle-orm";
import type { Account } from "../accounts/account.ts";
import type { Origin, ReadContext } from "../accounts/actor.ts";
import { accounts } from "../accounts/tables.ts";
import { audited } from "../audit/audit.ts";
import { takesOwn } from "../audit/own-sign-in.ts";
import { hashOf } from "../crypto/hash.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { insertWhere } from "../db/insert-where.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import { newId } from "../ids/ids.ts";
import { dayMs, hourMs, minuteMs } from "../time/clock.ts";
import { commitChange, type Outbox, type WriteContext } from "../webhooks/outbox.ts";
import type { Member } from "./member.ts";
import { managedBy } from "./roles.ts";
import { members, sessions } from "./tables.ts";
import { newToken } from "./tokens.ts";

export type Session = typeof sessions.$inferSelect;

/** Where a session was opened. */
export interface SessionOrigin extends Origin {
  userAgent: string | null;
}

export const idleMs = 12 * hourMs;
export const maxMs = 14 * dayMs;
const touchedMs = minuteMs;
/** Sessions that a member may have at once. */
export const maxSessions = 50;
/** How long somebody who has just shown who they are need not do so again. */
export const freshMs = 10 * minuteMs;

/** A session of a member, and what its cookie holds. */
export function newSession(memberId: string, now: number, { ip, country, userAgent }: SessionOrigin): { token: string; row: Session } {
  const { token, tokenHash } = newToken();
  return {
    token,
    row: { tokenHash, id: newId("ses", now), memberId, verifiedAt: now, lastSeenAt: now, ip, country, userAgent, createdAt: now },
  };
}

/** What the audit log says of a sign-in by recovery code. */
export const byRecoveryCode = "recovery code";

/**
 * Opens a session for a member who has shown who they are. Returns what its cookie holds. `how`: what the audit says of it. Throws `forbidden`
 * where the member was removed meanwhile.
 */
export async function openSession(outbox: Outbox, member: Member, now: number, from: SessionOrigin, how: string): Promise<string> {
  const { token, row } = newSession(member.id, now, from);
  const actor = { accountId: member.accountId, by: { type: "member" as const, id: member.id }, from };
  const when = sql`EXISTS (SELECT 1 FROM members WHERE id = ${member.id} AND removed_at IS NULL)`;
  const [opened] = await commitChange(outbox, {
    evenWhereFull: "unrecorded",
    events: [],
    auditWhen: how === byRecoveryCode ? sql`true` : takesOwn({ actor, now }, "session.started"),
    audit: [audited({ actor, now }, "session.started", { type: "session", id: row.id, name: how })],
    statements: [insertWhere(outbox.db, sessions, row, when), endOldest(outbox.db, member.id)],
    when,
  });
  if (!wrote(opened)) throw new Failure("forbidden", "You are no longer a member of this account.");
  return token;
}

/** Ends all sessions of a member but the latest 50: nobody fills the database by signing in. */
const endOldest = (db: Db, memberId: string): Statement =>
  raw(
    db,
    sql`DELETE FROM sessions WHERE member_id = ${memberId} AND id <= (SELECT id FROM sessions AS kept WHERE kept.member_id = ${memberId}
      ORDER BY kept.id DESC LIMIT 1 OFFSET ${maxSessions})`,
  );

const isLive = (now: number) => and(gt(sessions.lastSeenAt, now - idleMs), gt(sessions.createdAt, now - maxMs), isNull(members.removedAt));

export interface SignedIn {
  /** Null under Cloudflare Access, which keeps its own. */
  session: Session | null;
  /** When they last showed who they are. */
  verifiedAt: number;
  member: Member;
  account: Account;
}

/** Whose session a cookie opens; null where it has ended. */
export async function readSession(db: Db, token: string, now: number): Promise<(SignedIn & { session: Session }) | null> {
  const [found] = await db
    .select({ session: sessions, member: members, account: accounts })
    .from(sessions)
    .innerJoin(members, eq(members.id, sessions.memberId))
    .innerJoin(accounts, eq(accounts.id, members.accountId))
    .where(and(eq(sessions.tokenHash, hashOf(token)), isLive(now)));
  return found ? { ...found, verifiedAt: found.session.verifiedAt } : null;
}

/** Notes that a session is in use, once a minute at most. */
export async function touchSession(db: Db, { tokenHash, lastSeenAt, memberId }: Session, now: number): Promise<void> {
  if (now - lastSeenAt < touchedMs) return;
  await db.batch([
    db.update(sessions).set({ lastSeenAt: now }).where(eq(sessions.tokenHash, tokenHash)),
    db.update(members).set({ lastSeenAt: now }).where(eq(members.id, memberId)),
  ]);
}

/** Notes that a member has just shown who they are in a session. `how`: a confirmation by recovery code is recorded in the audit log. */
export async function confirmSession(outbox: Outbox, member: Member, { id, tokenHash }: Session, now: number, from: Origin, how: string) {
  const actor = { accountId: member.accountId, by: { type: "member" as const, id: member.id }, from };
  await commitChange(outbox, {
    evenWhereFull: "unrecorded",
    events: [],
    audit: how === byRecoveryCode ? [audited({ actor, now }, "session.confirmed", { type: "session", id, name: how })] : [],
    statements: [outbox.db.update(sessions).set({ verifiedAt: now }).where(eq(sessions.tokenHash, tokenHash))],
  });
}

/** The sessions that a member may end: their own, and those of members that they may remove. */
const endableBy = ({ id, accountId, role }: Member): SQL =>
  sql`${sessions.memberId} IN (SELECT id FROM members WHERE account_id = ${accountId} AND removed_at IS NULL AND (id = ${id} OR ${inArray(sql`role`, managedBy(role))}))`;

/** As many sessions as a list has: all of a member's own, and the latest of others. */
export const maxListed = 2 * maxSessions;
/** As many sessions of another member as are looked at: a list of 1,000 members with 50 each would hold up everybody. */
const maxOfOther = 5;

/** The live sessions that a member may end, at most 100: first their own, then the latest five of each other member. Each the latest first. */
export async function listSessions({ db, now }: ReadContext, member: Member): Promise<{ session: Session; member: Member }[]> {
  // Reads the latest sessions of each member. From the sessions to their members, it would read all sessions of the account.
  const list = (whose: SQL | undefined, most: number) =>
    db
      .select({ session: sessions, member: members })
      .from(members)
      .crossJoin(sessions)
      .where(
        and(
          whose,
          isLive(now),
          sql`${sessions.id} IN (SELECT latest.id FROM sessions AS latest WHERE latest.member_id = ${members.id} ORDER BY latest.last_seen_at DESC LIMIT ${sql.raw(String(most))})`,
        ),
      )
      .orderBy(desc(sessions.lastSeenAt))
      .limit(maxListed);
  const isOther = and(eq(members.accountId, member.accountId), ne(members.id, member.id), inArray(members.role, managedBy(member.role)));
  // Not a batch: Drizzle mixes up columns of one name there.
  const [own, others] = await Promise.all([list(eq(members.id, member.id), maxSessions), list(isOther, maxOfOther)]);
  return [...own, ...others].slice(0, maxListed);
}

/** Returns the id of the member that a session is of. Null for a session that `member` may not end. */
export async function readMemberOfSession({ db }: ReadContext, id: string, member: Member): Promise<string | null> {
  const [found] = await db
    .select({ memberId: sessions.memberId })
    .from(sessions)
    .where(and(eq(sessions.id, id), endableBy(member)));
  return found?.memberId ?? null;
}

/** Ends a session that a member may end. Throws `not_found` for any other. */
export async function endSession(writing: WriteContext, id: string, member: Member): Promise<void> {
  const { db, commit } = writing;
  const endable = and(eq(sessions.id, id), endableBy(member));
  const [ended] = await commit({
    evenWhereFull: "unrecorded",
    result: null,
    events: [],
    auditWhen: sql`(${takesOwn(writing, "session.ended")} OR EXISTS (SELECT 1 FROM sessions WHERE ${endable} AND member_id <> ${member.id}))`,
    audit: [audited(writing, "session.ended", { type: "session", id, name: null })],
    statements: [db.delete(sessions).where(endable).returning({ id: sessions.id })],
    when: sql`EXISTS (SELECT 1 FROM sessions WHERE ${endable})`,
  });
  if (!wrote(ended)) throw new Failure("not_found", "There is no such session.");
}

/** Deletes sessions that have come to their end, at most `atMost`. Those that ended earlier, since nobody used them, go with them. Answers how many went. */
export const deleteOldSessions = (db: Db, now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM sessions WHERE token_hash IN
      (SELECT token_hash FROM sessions WHERE created_at < ${now - maxMs} ORDER BY created_at LIMIT ${limit})`,
  );
