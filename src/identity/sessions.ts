import { and, desc, eq, gt, inArray, isNull, ne, type SQL, sql } from "drizzle-orm";
import type { Account } from "../accounts/account.ts";
import type { Origin, ReadContext } from "../accounts/actor.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { members, sessions } from "../db/areas/identity/tables.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { insertWhere } from "../db/insert-where.ts";
import { wrote } from "../db/optimistic-locking.ts";
import type { Guards } from "../guard/guards.ts";
import { endTemporarySecretsOf } from "../keys/temporary-secrets.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import { newId } from "../lib/ids.ts";
import { dayMs, hourMs, minuteMs } from "../lib/time/clock.ts";
import { auditEntry } from "../outbox/audit.ts";
import { commitChange, type Outbox, type WriteContext } from "../outbox/outbox.ts";
import { takesOwn } from "./audit/own-sign-in.ts";
import { type Member, memberActor } from "./member.ts";
import { managedBy } from "./roles.ts";
import { newToken } from "./tokens.ts";

export type Session = typeof sessions.$inferSelect;

/** The client address, country and user agent of the request that opened a session. */
export interface SessionOrigin extends Origin {
  userAgent: string | null;
}

export const sessionIdleMs = 12 * hourMs;
export const maxSessionMs = 14 * dayMs;
const touchedMs = minuteMs;
/** A session of a portal link ends after this time, in milliseconds. */
export const maxPortalSessionMs = dayMs;
/** The maximum number of sessions of a member. */
export const maxSessions = 50;
/** How long a sign-in or a confirmation counts as recent. After this time, sensitive actions require a new confirmation. */
export const stepUpMs = 10 * minuteMs;

/** Returns a new session of a member and the token for the session cookie. `openedWith`: the credential that opens the session. */
export function newSession(memberId: string, openedWith: string, now: number, { ip, country, userAgent }: SessionOrigin) {
  const { token, tokenHash } = newToken();
  const given = { tokenHash, id: newId("ses", now), memberId, openedWith, confirmedWith: openedWith, ip, country, userAgent };
  const row: Session = {
    ...given,
    returnUrl: null,
    portalTokenId: null,
    isFramed: false,
    verifiedAt: now,
    lastSeenAt: now,
    createdAt: now,
  };
  return { token, row };
}

/** The audit log uses this name for a sign-in or a confirmation with a recovery code. */
export const byRecoveryCode = "recovery code";

/** A member who has just proved their identity. `credential`: the id of the passkey, or the hash of the recovery code. */
export interface Proof {
  member: Member;
  how: "passkey" | typeof byRecoveryCode;
  credential: string;
}

/** Returns an SQL condition that is true if the member still has the credential. A removed member has none. */
const stillHas = ({ member: { id }, credential }: Proof): SQL =>
  sql`(EXISTS (SELECT 1 FROM passkeys WHERE id = ${credential} AND member_id = ${id})
    OR EXISTS (SELECT 1 FROM recovery_codes WHERE code_hash = ${credential} AND member_id = ${id}))`;

const noLongerValid = () =>
  new Failure("forbidden", "The passkey or recovery code no longer works, or you are no longer a member of this account.");

/**
 * Opens a session for a member who has proved their identity. Returns the token for the session cookie. Throws `forbidden` if the
 * credential or the member has been removed.
 */
export async function openSession(outbox: Outbox, proof: Proof, now: number, from: SessionOrigin): Promise<string> {
  const { member, how, credential } = proof;
  const { token, row } = newSession(member.id, credential, now, from);
  const actor = memberActor(member, from);
  const when = stillHas(proof);
  const { opened } = await commitChange(outbox, {
    whenFull: "unrecorded",
    events: [],
    auditWhen: how === byRecoveryCode ? sql`true` : takesOwn({ actor, now }, "session.started"),
    audit: [auditEntry({ actor, now }, "session.started", { type: "session", id: row.id, name: how })],
    statements: { opened: insertWhere(outbox.db, sessions, row, when), oldest: endOldest(outbox.db, member.id) },
    when,
  });
  if (!wrote(opened)) throw noLongerValid();
  return token;
}

/**
 * Returns the statement that ends all sessions of a member except the latest 50. Without the maximum of 50 sessions, repeated sign-ins
 * could fill the database.
 */
export const endOldest = (db: Db, memberId: string): Statement =>
  raw(
    db,
    sql`DELETE FROM sessions WHERE member_id = ${memberId} AND id <= (SELECT id FROM sessions AS kept WHERE kept.member_id = ${memberId}
      ORDER BY kept.id DESC LIMIT 1 OFFSET ${maxSessions})`,
  );

const isLiveSession = (now: number) =>
  and(
    gt(sessions.lastSeenAt, now - sessionIdleMs),
    gt(sessions.createdAt, sql`iif(${sessions.returnUrl} IS NULL, ${now - maxSessionMs}, ${now - maxPortalSessionMs})`),
    isNull(members.removedAt),
  );

export interface SignedIn {
  /** Null if the member signed in through Cloudflare Access, because Access manages its own sessions. */
  session: Session | null;
  /** The time at which the member last proved their identity, in milliseconds since the epoch. */
  verifiedAt: number;
  member: Member;
  account: Account;
}

export type Acting = Pick<SignedIn, "member" | "session">;

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

/**
 * Records that a member has just confirmed their identity in a session. Returns the session. The audit log gets an entry only for a recovery
 * code. Throws `forbidden` if the session has ended or the credential has been removed.
 */
export async function confirmSession(outbox: Outbox, proof: Proof, { id }: Session, now: number, from: Origin): Promise<Session> {
  const { member, how, credential } = proof;
  const actor = memberActor(member, from);
  const own = and(eq(sessions.id, id), stillHas(proof));
  const { confirmed } = await commitChange(outbox, {
    whenFull: "unrecorded",
    events: [],
    audit: how === byRecoveryCode ? [auditEntry({ actor, now }, "session.confirmed", { type: "session", id, name: how })] : [],
    statements: { confirmed: outbox.db.update(sessions).set({ verifiedAt: now, confirmedWith: credential }).where(own).returning() },
    when: sql`EXISTS (SELECT 1 FROM sessions WHERE ${own})`,
  });
  if (!wrote(confirmed)) throw noLongerValid();
  return confirmed[0] as Session;
}

/**
 * Returns the statement that ends the sessions of the acting member that were opened or last confirmed with one of the credentials.
 * `credentials` is a SELECT. The acting session stays if its last confirmation used another credential.
 */
export const endSessionsWith = (db: Db, { member, session }: Acting, credentials: SQL, when: SQL = sql`true`): Statement =>
  raw(
    db,
    sql`DELETE FROM sessions WHERE member_id = ${member.id} AND (confirmed_with IN (${credentials})
      OR (opened_with IN (${credentials}) AND id <> ${session?.id ?? ""})) AND ${when}`,
  );

/** Returns the roles whose sessions a member may end. A member who came by a portal link ends only their own. */
const rolesEndedBy = ({ role, externalId }: Member) => (externalId === null ? managedBy(role) : []);

/**
 * Returns an SQL condition that selects the sessions that a member may end. A member may end their own sessions and the sessions of members
 * whom they may remove.
 */
const endableBy = (member: Member): SQL =>
  sql`${sessions.memberId} IN (SELECT id FROM members WHERE account_id = ${member.accountId} AND removed_at IS NULL AND (id = ${member.id} OR ${inArray(sql`role`, rolesEndedBy(member))}))`;

/** The maximum number of sessions in a list: all of the member's own sessions, and the latest sessions of other members. */
export const maxListed = 2 * maxSessions;
/** The maximum number of sessions in a list for each other member. Reading 50 sessions for each of 1,000 members would delay other requests. */
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
  const isOther = and(eq(members.accountId, member.accountId), ne(members.id, member.id), inArray(members.role, rolesEndedBy(member)));
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
export async function endSession(context: WriteContext & { guards: Guards }, id: string, member: Member): Promise<void> {
  const { db, commit } = context;
  const endable = and(eq(sessions.id, id), endableBy(member));
  const { ended } = await commit({
    whenFull: "unrecorded",
    events: [],
    auditWhen: sql`(${takesOwn(context, "session.ended")} OR EXISTS (SELECT 1 FROM sessions WHERE ${endable} AND member_id <> ${member.id}))`,
    audit: [auditEntry(context, "session.ended", { type: "session", id, name: null })],
    statements: { ended: db.delete(sessions).where(endable).returning({ memberId: sessions.memberId }) },
    when: sql`EXISTS (SELECT 1 FROM sessions WHERE ${endable})`,
  });
  const [session] = ended as { memberId: string }[];
  if (!session) throw new Failure("not_found", "There is no such session.");
  await endTemporarySecretsOf(context, [session.memberId]);
}

/** Ends all sessions of a member except the session of the request. Throws `not_found` if the member signed in through Cloudflare Access. */
export async function endOtherSessions(context: WriteContext & { guards: Guards }, { member, session }: Acting): Promise<void> {
  if (session === null) throw new Failure("not_found", "Cloudflare Access manages your sessions.");
  const others = and(eq(sessions.memberId, member.id), ne(sessions.id, session.id));
  await context.commit({
    whenFull: "unrecorded",
    events: [],
    auditWhen: takesOwn(context, "session.ended"),
    audit: [auditEntry(context, "session.ended", { type: "member", id: member.id, name: member.name })],
    statements: { ended: context.db.delete(sessions).where(others) },
    when: sql`EXISTS (SELECT 1 FROM sessions WHERE ${others})`,
  });
  await endTemporarySecretsOf(context, [member.id]);
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
