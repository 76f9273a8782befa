import { and, eq, gt, isNull, type SQL, sql } from "drizzle-orm";
import { readAccount } from "../accounts/account.ts";
import type { Origin, Reading } from "../accounts/actor.ts";
import { isNotSuspended, suspended } from "../accounts/suspension.ts";
import { audited, auditKeptMs } from "../audit/audit.ts";
import { dayMs } from "../clock.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { insertWhere } from "../db/insert-where.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { invitations, members, passkeys, recoveryCodes, sessions } from "../db/schema-main.ts";
import { Failure } from "../errors.ts";
import { commitChange, type Outbox, type Writing } from "../events/commit.ts";
import { hashOf } from "../hash.ts";
import { newId } from "../ids.ts";
import { type Member, memberInvited, memberJoined } from "./member.ts";
import type { NewPasskey } from "./passkeys.ts";
import { newRecoveryCodes } from "./recovery-codes.ts";
import type { Role } from "./roles.ts";
import { newSession, type SessionOrigin } from "./sessions.ts";
import { newToken } from "./tokens.ts";

export type Invitation = typeof invitations.$inferSelect;

export const keptMs = 7 * dayMs;

/** Makes the link by which an owner of an account comes in, the first one or a further one, and ends the one before. Answers what the link carries. `alongside`: statements that go with it. */
export async function makeSetup({ db, now }: { db: Db; now: number }, accountId: string, alongside: Statement[] = []): Promise<string> {
  const { token, tokenHash } = newToken();
  await db.batch([
    db.delete(invitations).where(and(eq(invitations.accountId, accountId), eq(invitations.kind, "setup"), isNull(invitations.usedBy))),
    db.insert(invitations).values({
      tokenHash,
      id: newId("inv", now),
      accountId,
      kind: "setup",
      role: "owner",
      email: "",
      invitedBy: null,
      usedBy: null,
      expiresAt: now + keptMs,
      createdAt: now,
    }),
    ...alongside,
  ]);
  return token;
}

/** Which of the accounts have anybody who can sign in. */
export async function claimedOf(db: Db, accountIds: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await db.all<{ id: string }>(
    sql`SELECT value AS id FROM json_each(${JSON.stringify(accountIds)})
      WHERE EXISTS (SELECT 1 FROM members WHERE account_id = value AND removed_at IS NULL)`,
  );
  return new Set(rows.map(({ id }) => id));
}

/** The condition that nobody with this address, in lower case, is a member of the account. */
const isNoMember = (accountId: string, emailKey: string): SQL =>
  sql`NOT EXISTS (SELECT 1 FROM members WHERE account_id = ${accountId} AND email_key = ${emailKey} AND removed_at IS NULL)`;

/** Invites somebody, for seven days. Answers what the link carries, shown this once. Throws `conflict` for who is a member already. */
export async function invite(
  writing: Writing,
  { email, role }: { email: string; role: Role },
): Promise<{ invitation: Invitation; token: string }> {
  const { db, actor, now, commit } = writing;
  const { token, tokenHash } = newToken();
  const invitation: Invitation = {
    tokenHash,
    id: newId("inv", now),
    accountId: actor.accountId,
    kind: "invite",
    role,
    email,
    invitedBy: actor.by.id,
    usedBy: null,
    expiresAt: now + keptMs,
    createdAt: now,
  };
  const isNew = isNoMember(actor.accountId, email.toLowerCase());
  const [made] = await commit({
    result: null,
    events: [memberInvited({ ...invitation, name: "" }, now)],
    audit: [audited(writing, "member.invited", { type: "invitation", id: invitation.id, name: email }, ["role"])],
    statements: [insertWhere(db, invitations, invitation, isNew)],
    when: isNew,
  });
  if (!wrote(made)) throw new Failure("conflict", "Somebody with this address is a member already.");
  return { invitation, token };
}

/** Ends an invitation that nobody has taken up. Throws `not_found`. */
export async function withdrawInvitation(writing: Writing, id: string): Promise<void> {
  const { db, actor, commit } = writing;
  const open = and(eq(invitations.accountId, actor.accountId), eq(invitations.id, id), isNull(invitations.usedBy));
  const [ended] = await commit({
    evenWhereFull: true,
    result: null,
    events: [],
    audit: [audited(writing, "member.invitation_withdrawn", { type: "invitation", id, name: null })],
    statements: [db.delete(invitations).where(open).returning({ id: invitations.id })],
    when: sql`EXISTS (SELECT 1 FROM invitations WHERE ${open})`,
  });
  if (!wrote(ended)) throw new Failure("not_found", "There is no such invitation.");
}

const isOpen = (tokenHash: string, now: number) =>
  and(eq(invitations.tokenHash, tokenHash), isNull(invitations.usedBy), gt(invitations.expiresAt, now));

export const endedLink = () => new Failure("conflict", "This link was used before, or has ended. Ask for a new one.");

/** The invitation that a link carries. Throws `conflict` where it was used or has ended. */
export async function readInvitation({ db, now }: Pick<Reading, "db" | "now">, token: string): Promise<Invitation> {
  const [invitation] = await db
    .select()
    .from(invitations)
    .where(isOpen(hashOf(token), now));
  if (!invitation) throw endedLink();
  return invitation;
}

/** What somebody says of themselves who takes up a link. */
export interface NewMember {
  name: string;
  email: string;
}

export interface Claimed {
  member: Member;
  /** What the cookie of the new session holds. */
  token: string;
  /** Shown this once. */
  codes: string[];
}

/** A member as an invitation makes one. */
const memberOf = ({ accountId, role }: Invitation, { name, email }: NewMember, now: number): Member => ({
  id: newId("mem", now),
  accountId,
  name,
  email,
  emailKey: email.toLowerCase(),
  role,
  removedAt: null,
  lastSeenAt: now,
  createdAt: now,
});

/**
 * Makes a member of whoever takes up an invitation, with what else comes with them, all of it or nothing: of two at once, one
 * wins. Returns whether this one did.
 */
async function takeUp(outbox: Outbox, now: number, { invitation, member, from, alongside = () => [] }: TakingUp): Promise<boolean> {
  const { db } = outbox;
  const open = isOpen(invitation.tokenHash, now);
  const when = sql`EXISTS (SELECT 1 FROM invitations WHERE ${open}) AND ${isNoMember(member.accountId, member.emailKey)}
    AND ${isNotSuspended(member.accountId)}`;
  // What comes after the member: by then there is somebody with this address.
  const isMade = sql`EXISTS (SELECT 1 FROM members WHERE id = ${member.id})`;
  const actor = { accountId: member.accountId, by: { type: "member" as const, id: member.id }, from };
  const outcomes = await commitChange(outbox, {
    events: [memberJoined(member, now)],
    audit: [audited({ actor, now }, "member.joined", { type: "member", id: member.id, name: member.name })],
    statements: [
      insertWhere(db, members, member, when),
      ...alongside(isMade),
      raw(db, sql`UPDATE invitations SET used_by = ${member.id} WHERE ${open} AND ${isMade} RETURNING 1`),
    ],
    when,
  });
  return wrote(outcomes.at(-1));
}

interface TakingUp {
  invitation: Invitation;
  member: Member;
  from: Origin;
  /** Statements that make what else comes with the member, where the condition holds. */
  alongside?: (when: SQL) => Statement[];
}

/** Makes a member of whoever has a link and a passkey, with recovery codes and a session. Throws `conflict` for a link that was used or has ended. */
export async function claim(
  outbox: Outbox,
  now: number,
  { token, person, passkey, from }: { token: string; person: NewMember; passkey: NewPasskey; from: SessionOrigin },
): Promise<Claimed> {
  const { db } = outbox;
  const invitation = await readInvitation({ db, now }, token);
  if ((await readAccount(db, invitation.accountId)).suspendedAt !== null) throw suspended();
  const member = memberOf(invitation, invitation.kind === "invite" ? { ...person, email: invitation.email } : person, now);
  const { codes, rows } = newRecoveryCodes(member.id);
  const session = newSession(member.id, now, from);
  const alongside = (when: SQL) => [
    insertWhere(db, passkeys, { ...passkey, memberId: member.id, lastUsedAt: now, createdAt: now }, when),
    ...rows.map((row) => insertWhere(db, recoveryCodes, row, when)),
    insertWhere(db, sessions, session.row, when),
  ];
  if (!(await takeUp(outbox, now, { invitation, member, from, alongside }))) throw endedLink();
  return { member, token: session.token, codes };
}

/** Makes a member of whoever has shown that an address is theirs, where it was invited and nobody has taken that up. */
export async function joinByEmail(outbox: Outbox, now: number, { email, from }: { email: string; from: Origin }): Promise<void> {
  const [invitation] = await outbox.db
    .select()
    .from(invitations)
    .where(
      and(
        sql`lower(${invitations.email}) = ${email.toLowerCase()}`,
        eq(invitations.kind, "invite"),
        isNull(invitations.usedBy),
        gt(invitations.expiresAt, now),
      ),
    )
    .limit(1);
  if (!invitation) return;
  const member = memberOf(invitation, { name: email.split("@")[0] ?? email, email: invitation.email }, now);
  await takeUp(outbox, now, { invitation, member, from });
}

/** Deletes invitations of accounts that ended longer ago than the audit log goes back, at most `atMost`. Answers how many went. */
export const deleteOldInvitations = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM invitations WHERE token_hash IN (SELECT token_hash FROM json_each(${JSON.stringify(accountIds)}) AS due
      CROSS JOIN invitations ON invitations.account_id = due.value AND expires_at < ${now - auditKeptMs} LIMIT ${limit})`,
  );
