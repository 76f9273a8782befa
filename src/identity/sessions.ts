import { and, desc, eq, gt, inArray, isNull, ne, type SQL, sql } from "drizzle-orm";
import type { Account } from "../accounts/account.ts";
import type { Origin, ReadContext } from "../accounts/actor.ts";
import { accounts } from "../accounts/tables.ts";
import { auditEntry } from "../audit/audit.ts";
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

/** The client address, country and user agent of the request that opened a session. */
export interface SessionOrigin extends Origin {
  userAgent: string | null;
}

export const sessionIdleMs = 12 * hourMs;
export const maxSessionMs = 14 * dayMs;
const touchedMs = minuteMs;
/** The maximum number of sessions of a member. */
export const maxSessions = 50;
/** How long a sign-in or a confirmation counts as recent. After this time, sensitive actions require a new confirmation. */
export const stepUpMs = 10 * minuteMs;

/** Returns a new session of a member and the token for the session cookie. */
export function newSession(memberId: string, now: number, { ip, country, userAgent }: SessionOrigin): { token: string; row: Session } {
  const { token, tokenHash } = newToken();
  return {
    token,
    row: { tokenHash, id: newId("ses", now), memberId, verifiedAt: now, lastSeenAt: now, ip, country, userAgent, createdAt: now },
  };
}

/** The audit log uses this name for a sign-in or a confirmation with a recovery code. */
export const byRecoveryCode = "recovery code";

/**
 * Opens a session for a member who has proved their identity. Returns the token for the session cookie. `how` is the name of the sign-in
 * method in the audit log. Throws `forbidden` if the member has been removed.
 */
export async function openSession(outbox: Outbox, member: Member, now: number, from: SessionOrigin, how: string): Promise<string> {
  const { token, row } = newSession(member.id, now, from);
  const actor = { accountId: member.accountId, by: { type: "member" as const, id: member.id }, from };
  const when = sql`EXISTS (SELECT 1 FROM members WHERE id = ${member.id} AND removed_at IS NULL)`;
  const [opened] = await commitChange(outbox, {
    evenWhereFull: "unrecorded",
    events: [],
    auditWhen: how === byRecoveryCode ? sql`true` : takesOwn({ actor, now }, "session.started"),
    audit: [auditEntry({ actor, now }, "session.started", { type: "session", id: row.id, name: how })],
    statements: [insertWhere(outbox.db, sessions, row, when), endOldest(outbox.db, member.id)],
    when,
  });
  if (!wrote(opened)) throw new Failure("forbidden", "You are no longer a member of this account.");
  return token;
}

/**
 * Returns the statement that ends all sessions of a member except the latest 50. Without the maximum of 50 sessions, repeated sign-ins
 * could fill the database.
 */
const endOldest = (db: Db, memberId: string): Statement =>
  raw(
    db,
    sql`DELETE FROM sessions WHERE member_id = ${memberId} AND id <= (SELECT id FROM sessions AS kept WHERE kept.member_id = ${memberId}
      ORDER BY kept.id DESC LIMIT 1 OFFSET ${maxSessions})`,
  );

const isLiveSession = (now: number) =>
  and(gt(sessions.lastSeenAt, now - sessionIdleMs), gt(sessions.createdAt, now - maxSessionMs), isNull(members.removedAt));

export interface SignedIn {
  /** Null if the member signed in through Cloudflare Access, because Access manages its own sessions. */
  session: Session | null;
  /** The time at which the member last proved their identity, in milliseconds since the epoch. */
  verifiedAt: number;
  member: Member;
  account: Account;
}

/** Returns the session that a cookie token belongs to. Returns null if the session has ended. */
export async function readSession(db: Db, token: string, now: number): Promise<(SignedIn & { session: Session }) | null> {
  const [found] = await db
    .select({ session: sessions, member: members, account: accounts })
    .from(sessions)
    .innerJoin(members, eq(members.id, sessions.memberId))
    .innerJoin(accounts, eq(accounts.id, members.accountId))
    .where(and(eq(sessions.tokenHash, hashOf(token)), isLiveSession(now)));
  return found ? { ...found, verifiedAt: found.session.verifiedAt } : null;
}

/** Updates the last-seen time of a session and of its member, at most once a minute. */
export async function touchSession(db: Db, { tokenHash, lastSeenAt, memberId }: Session, now: number): Promise<void> {
  if (now - lastSeenAt < touchedMs) return;
  await db.batch([
    db.update(sessions).set({ lastSeenAt: now }).where(eq(sessions.tokenHash, tokenHash)),
    db.update(members).set({ lastSeenAt: now }).where(eq(members.id, memberId)),
  ]);
}

/** Records that a member has just confirmed their identity in a session. The audit log gets an entry only if `how` is `byRecoveryCode`. */
export async function confirmSession(outbox: Outbox, member: Member, { id, tokenHash }: Session, now: number, from: Origin, how: string) {
  const actor = { accountId: member.accountId, by: { type: "member" as const, id: member.id }, from };
  await commitChange(outbox, {
    evenWhereFull: "unrecorded",
    events: [],
    audit: how === byRecoveryCode ? [auditEntry({ actor, now }, "session.confirmed", { type: "session", id, name: how })] : [],
    statements: [outbox.db.update(sessions).set({ verifiedAt: now }).where(eq(sessions.tokenHash, tokenHash))],
  });
}

/**
 * Returns an SQL condition that selects the sessions that a member may end. A member may end their own sessions and the sessions of members
 * whom they may remove.
 */
const endableBy = ({ id, accountId, role }: Member): SQL =>
  sql`${sessions.memberId} IN (SELECT id FROM members WHERE account_id = ${accountId} AND removed_at IS NULL AND (id = ${id} OR ${inArray(sql`role`, managedBy(role))}))`;

/**
 * The maximum number of sessions in a list. The list has room for all of the member's own sessions and for the latest sessions of other
 * members.
 */
export const maxListed = 2 * maxSessions;
/**
 * The maximum number of sessions in a list for each other member. This maximum is low, because reading 50 sessions for each of 1,000
 * members would delay other requests.
 */
const maxOfOther = 5;

/**
 * Returns up to 100 active sessions that a member may end. The member's own sessions come first, then the latest five sessions of each
 * other member. The member's own sessions and the other members' sessions are each sorted by last use, most recent first.
 */
export async function listSessions({ db, now }: ReadContext, member: Member): Promise<{ session: Session; member: Member }[]> {
  // The query reads the members first, then the latest sessions of each member. A query that starts with the sessions would read all
  // sessions of the account.
  const list = (whose: SQL | undefined, max: number) =>
    db
      .select({ session: sessions, member: members })
      .from(members)
      .crossJoin(sessions)
      .where(
        and(
          whose,
          isLiveSession(now),
          sql`${sessions.id} IN (SELECT latest.id FROM sessions AS latest WHERE latest.member_id = ${members.id} ORDER BY latest.last_seen_at DESC LIMIT ${sql.raw(String(max))})`,
        ),
      )
      .orderBy(desc(sessions.lastSeenAt))
      .limit(maxListed);
  const isOther = and(eq(members.accountId, member.accountId), ne(members.id, member.id), inArray(members.role, managedBy(member.role)));
  // These queries do not run as a batch, because Drizzle mixes up columns of the same name in a batch.
  const [own, others] = await Promise.all([list(eq(members.id, member.id), maxSessions), list(isOther, maxOfOther)]);
  return [...own, ...others].slice(0, maxListed);
}

/** Returns the id of the member that a session belongs to. Returns null if `member` may not end the session. */
export async function readMemberOfSession({ db }: ReadContext, id: string, member: Member): Promise<string | null> {
  const [found] = await db
    .select({ memberId: sessions.memberId })
    .from(sessions)
    .where(and(eq(sessions.id, id), endableBy(member)));
  return found?.memberId ?? null;
}

/** Ends a session. Throws `not_found` if there is no such session, or if `member` may not end it. */
export async function endSession(context: WriteContext, id: string, member: Member): Promise<void> {
  const { db, commit } = context;
  const endable = and(eq(sessions.id, id), endableBy(member));
  const [ended] = await commit({
    evenWhereFull: "unrecorded",
    result: null,
    events: [],
    auditWhen: sql`(${takesOwn(context, "session.ended")} OR EXISTS (SELECT 1 FROM sessions WHERE ${endable} AND member_id <> ${member.id}))`,
    audit: [auditEntry(context, "session.ended", { type: "session", id, name: null })],
    statements: [db.delete(sessions).where(endable).returning({ id: sessions.id })],
    when: sql`EXISTS (SELECT 1 FROM sessions WHERE ${endable})`,
  });
  if (!wrote(ended)) throw new Failure("not_found", "There is no such session.");
}

/**
 * Deletes up to `atMost` sessions that were created more than 14 days ago. A session ends after 12 hours without a request, but its row is
 * kept for 14 days. Returns the number of deleted sessions.
 */
export const deleteOldSessions = (db: Db, now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM sessions WHERE token_hash IN
      (SELECT token_hash FROM sessions WHERE created_at < ${now - maxSessionMs} ORDER BY created_at LIMIT ${limit})`,
  );
