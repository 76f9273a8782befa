import { and, asc, eq, getTableColumns, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { invitations, type Member, members } from "../db/areas/identity/tables.ts";
import type { Statement } from "../db/client.ts";
import { storeAuditOfEach } from "../outbox/audit.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import { managedBy, type Role, roles } from "./roles.ts";

// An invitation ends when the member who created the invitation loses the right to create it, or when the service token that created it is revoked. Nobody must
// be able to return through an older invitation.

export type Invitation = typeof invitations.$inferSelect;

/** A JSON array of role pairs for D1. Each pair contains the role of a member and a role that the member may give to an invited person. */
const mayInvite = JSON.stringify(roles.flatMap((own) => managedBy(own).map((role) => `${own} ${role}`)));

/**
 * Returns an SQL condition that is true if an invitation can be accepted. The invitation must be unused and must not have expired. The
 * invitation must come from the operator, from a service token that is not revoked, or from a member whose current role still allows such an
 * invitation.
 */
export const isOpen = (
  now: number,
): SQL => sql`(invitations.used_by IS NULL AND invitations.expires_at > ${now} AND (invitations.invited_by IS NULL OR EXISTS (
  SELECT 1 FROM members AS inviter WHERE inviter.id = invitations.invited_by AND inviter.account_id = invitations.account_id AND inviter.removed_at IS NULL
    AND inviter.role || ' ' || invitations.role IN (SELECT value FROM json_each(${mayInvite})))
  OR EXISTS (SELECT 1 FROM service_tokens WHERE service_tokens.id = invitations.invited_by AND service_tokens.revoked_at IS NULL)))`;

/** Returns an SQL condition that is true if an invitation is for the address with this email key. */
export const isAddressedTo = (emailKey: string): SQL => sql`(invitations.kind = 'invite' AND lower(invitations.email) = ${emailKey})`;

/**
 * Returns the open invitations of the account, oldest first, each with the name of the member who created it. The name is null if the
 * operator created the invitation. The optional SQL condition `which` filters the list.
 */
export const listInvitations = ({ db, actor, now }: ReadContext, which?: SQL): Promise<(Invitation & { invitedByName: string | null })[]> =>
  db
    .select({ ...getTableColumns(invitations), invitedByName: members.name })
    .from(invitations)
    .leftJoin(members, eq(members.id, invitations.invitedBy))
    .where(and(eq(invitations.accountId, actor.accountId), eq(invitations.kind, "invite"), isOpen(now), which))
    .orderBy(asc(invitations.createdAt), asc(invitations.id));

/**
 * Returns an SQL condition that selects the invitations to end when a member's role changes to `role`. If `role` is null, the member is
 * removed. The condition selects invitations to the member's own address, and invitations that the member created but may no longer create.
 * If the member was an owner, the setup link ends too, because nobody knows who has the link.
 */
export function invitationsEndedBy({ id, accountId, emailKey, role: before }: Member, role: Role | null, now: number): SQL {
  const still = JSON.stringify(role === null ? [] : managedBy(role));
  const isMadeInVain = sql`(invitations.invited_by = ${id} AND invitations.role NOT IN (SELECT value FROM json_each(${still})))`;
  const isSetup = before === "owner" ? sql`invitations.kind = 'setup'` : sql`false`;
  return sql`(invitations.account_id = ${accountId} AND invitations.used_by IS NULL AND invitations.expires_at > ${now} AND (${isMadeInVain} OR ${isAddressedTo(emailKey)} OR ${isSetup}))`;
}

/**
 * Returns statements that delete the invitations selected by `which` and record each deletion in the audit log. The statements change
 * nothing unless `when` is true.
 */
export const endInvitations = (context: WriteContext, which: SQL, when: SQL): Statement[] => [
  storeAuditOfEach(
    context,
    "member.invitation_withdrawn",
    "invitation",
    sql`SELECT id, nullif(email, '') AS name FROM invitations WHERE ${which} AND ${when}`,
  ),
  context.db.delete(invitations).where(and(which, when)),
];
