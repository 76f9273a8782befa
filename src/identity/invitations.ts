import { and, eq, isNull, type SQL, sql } from "drizzle-orm";
import { invitations } from "../db/areas/identity/tables.ts";
import type { Db, Statement } from "../db/client.ts";
import { deleteExpiredLinks } from "../db/delete-in-chunks.ts";
import { insertWhere } from "../db/insert-where.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { Failure } from "../lib/errors/failure.ts";
import { newId } from "../lib/ids.ts";
import { dayMs } from "../lib/time/clock.ts";
import { auditEntry, auditRetentionMs } from "../outbox/audit.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import { requireEmailKey } from "./email.ts";
import { memberInvited } from "./events.ts";
import type { Invitation } from "./open-invitations.ts";
import type { Role } from "./roles.ts";
import { newToken } from "./tokens.ts";

export const invitationMs = 7 * dayMs;

/**
 * Returns the token of a new setup link for an account's first owner or for an additional owner, and the statements that store it. They delete the account's
 * previous setup link if nobody used it. `tokenId`: the id of the service token that creates the link.
 */
export function newSetupLink(
  { db, now, tokenId = null }: { db: Db; now: number; tokenId?: string | null | undefined },
  accountId: string,
): { token: string; statements: Statement[] } {
  const { token, tokenHash } = newToken();
  const isUnused = and(eq(invitations.accountId, accountId), eq(invitations.kind, "setup"), isNull(invitations.usedBy));
  const link = { tokenHash, id: newId("inv", now), accountId, kind: "setup", role: "owner", email: "", invitedBy: tokenId } as const;
  const made = db.insert(invitations).values({ ...link, usedBy: null, expiresAt: now + invitationMs, createdAt: now });
  return { token, statements: [db.delete(invitations).where(isUnused), made] };
}

/** Stores a new setup link outside of any other batch, for local data. Returns its token. */
export async function createSetupLink(context: { db: Db; now: number }, accountId: string): Promise<string> {
  const { token, statements } = newSetupLink(context, accountId);
  await context.db.batch(statements as [Statement, ...Statement[]]);
  return token;
}

/** Returns the ids of the accounts that have at least one current member. */
export async function accountsWithMembers(db: Db, accountIds: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await db.all<{ id: string }>(
    sql`SELECT value AS id FROM json_each(${JSON.stringify(accountIds)})
      WHERE EXISTS (SELECT 1 FROM members WHERE account_id = value AND removed_at IS NULL)`,
  );
  return new Set(rows.map(({ id }) => id));
}

/** Returns an SQL condition that is true if no current member of the account has this email key. */
export const isNoMember = (accountId: string, emailKey: string): SQL =>
  sql`NOT EXISTS (SELECT 1 FROM members WHERE account_id = ${accountId} AND email_key = ${emailKey} AND removed_at IS NULL)`;

/**
 * The maximum number of members and open invitations of an account. This maximum also limits the number of sessions. The account's storage
 * quota does not limit sessions, because sign-ins work even when the storage is full.
 */
export const maxMembers = 1_000;

const membersOf = (accountId: string, now: number): SQL =>
  sql`((SELECT count(*) FROM members WHERE account_id = ${accountId} AND removed_at IS NULL)
    + (SELECT count(*) FROM invitations WHERE account_id = ${accountId} AND used_by IS NULL AND expires_at > ${now}))`;

/** Returns an SQL condition that is true if the account has room for another member. */
export const hasRoomForMember = (accountId: string, now: number): SQL => sql`${membersOf(accountId, now)} < ${maxMembers}`;

export const noRoomForMember = () =>
  new Failure(
    "limit_reached",
    `An account may have ${maxMembers.toLocaleString("en")} members and open invitations. Remove a member or withdraw an invitation first.`,
  );

/**
 * Creates an invitation that expires after seven days. Returns the invitation and the token of its link. The link is shown only once.
 * Throws `conflict` if a member already has this address. Throws `limit_reached` if the account has the maximum number of members and open
 * invitations. Throws `invalid_body` if the address contains a character that some systems convert to ASCII.
 */
export async function invite(
  context: WriteContext,
  { email, role }: { email: string; role: Role },
): Promise<{ invitation: Invitation; token: string }> {
  const { db, actor, now, commit } = context;
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
    expiresAt: now + invitationMs,
    createdAt: now,
  };
  const hasRoom = hasRoomForMember(actor.accountId, now);
  const isNew = isNoMember(actor.accountId, requireEmailKey(email));
  const when = sql`(${isNew} AND ${hasRoom})`;
  const { made } = await commit({
    events: [memberInvited({ ...invitation, name: "" }, now)],
    audit: [auditEntry(context, "member.invited", { type: "invitation", id: invitation.id, name: email }, ["role"])],
    statements: { made: insertWhere(db, invitations, invitation, when) },
    when,
  });
  if (wrote(made)) return { invitation, token };
  const [room] = await db.all<{ has: number }>(sql`SELECT ${hasRoom} AS has`);
  throw room?.has === 0 ? noRoomForMember() : new Failure("conflict", "A person with this email address is already a member.");
}

/** Deletes an unused invitation. Throws `not_found` if the account has no such invitation. */
export async function withdrawInvitation(context: WriteContext, id: string): Promise<void> {
  const { db, actor, commit } = context;
  const open = and(eq(invitations.accountId, actor.accountId), eq(invitations.id, id), isNull(invitations.usedBy));
  const { ended } = await commit({
    whenFull: "write",
    events: [],
    audit: [auditEntry(context, "member.invitation_withdrawn", { type: "invitation", id, name: null })],
    statements: { ended: db.delete(invitations).where(open).returning({ id: invitations.id }) },
    when: sql`EXISTS (SELECT 1 FROM invitations WHERE ${open})`,
  });
  if (!wrote(ended)) throw new Failure("not_found", "There is no such invitation.");
}

/**
 * Deletes up to `atMost` expired invitations to the given accounts, 400 days after their expiry. The audit log has the same retention.
 * Returns the number of deleted invitations.
 */
export const deleteOldInvitations = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteExpiredLinks(db, "invitations", accountIds, { before: now - auditRetentionMs, atMost });
