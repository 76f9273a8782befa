import { and, asc, eq, getTableColumns, type SQL, sql } from "drizzle-orm";
import { readAccount } from "../accounts/account.ts";
import type { Origin, ReadContext } from "../accounts/actor.ts";
import { isNotSuspended, suspended } from "../accounts/suspension.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { invitations, members, passkeys, recoveryCodes, sessions } from "../db/areas/identity/tables.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { isDuplicate } from "../db/failures.ts";
import { insertWhere } from "../db/insert-where.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import { newId } from "../lib/ids.ts";
import { auditEntry } from "../outbox/audit.ts";
import { commitChange, type Outbox } from "../outbox/outbox.ts";
import { emailKeyOf, requireEmailKey } from "./email.ts";
import { memberJoined } from "./events.ts";
import { isNoMember } from "./invitations.ts";
import { type Member, memberActor } from "./member.ts";
import { type Invitation, isAddressedTo, isOpen } from "./open-invitations.ts";
import { takenPasskey } from "./passkeys.ts";
import { newRecoveryCodes } from "./recovery-codes.ts";
import { newSession, type SessionOrigin } from "./sessions.ts";
import type { NewPasskey } from "./webauthn.ts";

const endedLink = () => new Failure("conflict", "This link was already used, or has expired. Ask for a new link.");

/** Returns the invitation that belongs to the token of a link. Throws `conflict` if the invitation was used or has ended. */
export async function readInvitation({ db, now }: Pick<ReadContext, "db" | "now">, token: string): Promise<Invitation> {
  const [invitation] = await db
    .select()
    .from(invitations)
    .where(and(eq(invitations.tokenHash, hashOf(token)), isOpen(now)));
  if (!invitation) throw endedLink();
  return invitation;
}

/** Returns the names of the account and of the member who created an invitation. The second name is null if the operator created it. */
export async function readParties(db: Db, { accountId, invitedBy }: Invitation): Promise<{ account: string; invitedBy: string | null }> {
  const [parties] = await db
    .select({ account: accounts.name, invitedBy: members.name })
    .from(accounts)
    .leftJoin(members, and(eq(members.accountId, accounts.id), eq(members.id, invitedBy ?? "")))
    .where(eq(accounts.id, accountId));
  if (!parties) throw endedLink();
  return parties;
}

/** The details that a person enters to accept an invitation or a setup link. */
export interface NewMember {
  name: string;
  email: string;
}

export interface Claimed {
  member: Member;
  /** The token for the cookie of the new session. */
  token: string;
  /** The recovery codes of the new member, which are shown only once. */
  codes: string[];
}

/**
 * Returns the member row for an accepted invitation. Throws `invalid_body` if the address contains a character that some systems convert to
 * ASCII.
 */
const memberOf = ({ accountId, role }: Invitation, { name, email }: NewMember, now: number): Member => ({
  id: newId("mem", now),
  accountId,
  name,
  email,
  emailKey: requireEmailKey(email),
  role,
  externalId: null,
  removedAt: null,
  lastSeenAt: now,
  createdAt: now,
  zone: null,
});

/**
 * Creates a member from an invitation. One batch writes all rows that belong to the member. If two requests accept the same invitation,
 * only one request succeeds. Deletes the account's other invitations to the same address. Throws `conflict` if the invitation is not open
 * or if a member already has the address. Throws `account_suspended` if the account is suspended.
 */
async function createMember(outbox: Outbox, now: number, { invitation, member, from, alongside = () => [] }: TakingUp): Promise<void> {
  const { db } = outbox;
  const { accountId, emailKey } = member;
  if ((await readAccount(db, accountId)).suspendedAt !== null) throw suspended();
  const isThis = sql`invitations.token_hash = ${invitation.tokenHash} AND ${isOpen(now)}`;
  const when = sql`EXISTS (SELECT 1 FROM invitations WHERE ${isThis}) AND ${isNoMember(accountId, emailKey)} AND ${isNotSuspended(accountId)}`;
  // After the insert, `when` is false, because the new member now has the email address. The later statements therefore check that the
  // member exists.
  const isMade = sql`EXISTS (SELECT 1 FROM members WHERE id = ${member.id})`;
  const actor = memberActor(member, from);
  const { taken } = await commitChange(outbox, {
    events: [memberJoined(member, now)],
    audit: [auditEntry({ actor, now }, "member.joined", { type: "member", id: member.id, name: member.name })],
    statements: {
      joined: insertWhere(db, members, member, when),
      alongside: alongside(isMade),
      taken: raw(db, sql`UPDATE invitations SET used_by = ${member.id} WHERE ${isThis} AND ${isMade} RETURNING 1`),
      others: db.delete(invitations).where(sql`${isAddressedTo(emailKey)} AND account_id = ${accountId} AND used_by IS NULL AND ${isMade}`),
    },
    when,
  });
  if (!wrote(taken)) throw endedLink();
}

interface TakingUp {
  invitation: Invitation;
  member: Member;
  from: Origin;
  /** Returns the statements that create the member's other rows. The statements write nothing unless `when` is true. */
  alongside?: (when: SQL) => Statement[];
}

/**
 * Creates a member from a link and a passkey, with recovery codes and a session. Throws `conflict` if the link was already used or has
 * ended, or if the passkey is already registered.
 */
export async function acceptInvitation(
  outbox: Outbox,
  now: number,
  { token, person, passkey, from }: { token: string; person: NewMember; passkey: NewPasskey; from: SessionOrigin },
): Promise<Claimed> {
  const { db } = outbox;
  const invitation = await readInvitation({ db, now }, token);
  const member = memberOf(invitation, invitation.kind === "invite" ? { ...person, email: invitation.email } : person, now);
  const { codes, rows } = newRecoveryCodes(member.id);
  const session = newSession(member.id, passkey.id, now, from);
  const alongside = (when: SQL) => [
    insertWhere(db, passkeys, { ...passkey, memberId: member.id, lastUsedAt: now, createdAt: now }, when),
    ...rows.map((row) => insertWhere(db, recoveryCodes, row, when)),
    insertWhere(db, sessions, session.row, when),
  ];
  await createMember(outbox, now, { invitation, member, from, alongside }).catch((error: unknown) => {
    throw isDuplicate(error, "passkeys.id") ? takenPasskey(error) : error;
  });
  return { member, token: session.token, codes };
}

/** An open invitation, as the invited person sees it: with the account name and the inviting member. */
export interface ReceivedInvitation {
  invitation: Invitation;
  accountName: string;
  /** Null if the operator created the invitation. */
  inviter: { name: string; email: string } | null;
}

/** The maximum number of invitations in the list for one email address. */
const maxOffers = 100;

/**
 * Returns the open invitations to an email address. Leaves out invitations to accounts that already have a member with this address. The
 * list starts with the first invitation from every account, followed by the second invitation from every account, and so on. Because of
 * this order, one account with many invitations cannot push the invitations of other accounts off the list.
 */
export async function listReceivedInvitations(db: Db, email: string, now: number): Promise<ReceivedInvitation[]> {
  const emailKey = emailKeyOf(email);
  if (emailKey === null) return [];
  const rows = await db
    .select({ invitation: getTableColumns(invitations), accountName: accounts.name, name: members.name, email: members.email })
    .from(invitations)
    .innerJoin(accounts, eq(accounts.id, invitations.accountId))
    .leftJoin(members, eq(members.id, invitations.invitedBy))
    .where(
      and(
        isAddressedTo(emailKey),
        isOpen(now),
        sql`NOT EXISTS (SELECT 1 FROM members AS own WHERE own.account_id = ${invitations.accountId} AND own.email_key = ${emailKey} AND own.removed_at IS NULL)`,
      ),
    )
    .orderBy(
      sql`row_number() OVER (PARTITION BY ${invitations.accountId} ORDER BY ${invitations.createdAt}, ${invitations.id})`,
      asc(invitations.createdAt),
      asc(invitations.id),
    )
    .limit(maxOffers);
  return rows.map(({ name, email: inviterEmail, ...offer }) => ({
    ...offer,
    inviter: name === null || inviterEmail === null ? null : { name, email: inviterEmail },
  }));
}

/**
 * Creates a member from an invitation to the given email address. The caller must have verified the address. Throws `conflict` if there is
 * no open invitation with this id to this address.
 */
export async function joinByEmail(
  outbox: Outbox,
  now: number,
  { email, invitationId, from }: { email: string; invitationId: string; from: Origin },
): Promise<Member> {
  const emailKey = emailKeyOf(email);
  const [invitation] =
    emailKey === null
      ? []
      : await outbox.db
          .select()
          .from(invitations)
          .where(and(eq(invitations.id, invitationId), isAddressedTo(emailKey), isOpen(now)));
  if (!invitation) throw new Failure("conflict", "This invitation was already accepted, or has ended. Ask for a new invitation.");
  const member = memberOf(invitation, { name: email.split("@")[0] ?? email, email: invitation.email }, now);
  await createMember(outbox, now, { invitation, member, from });
  return member;
}
