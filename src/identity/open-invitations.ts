import { and, asc, eq, getTableColumns, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { storeAuditOfEach } from "../audit/audit.ts";
import type { Statement } from "../db/client.ts";
import type { WriteContext } from "../webhooks/outbox.ts";
import type { Member } from "./member.ts";
import { managedBy, type Role, roles } from "./roles.ts";
import { invitations, members } from "./tables.ts";

// Which invitations are open, and which end with the one who made them or was invited: nobody comes back by a link from before.

export type Invitation = typeof invitations.$inferSelect;

/** Who may invite to what, for D1. */
const mayInvite = JSON.stringify(roles.flatMap((own) => managedBy(own).map((role) => `${own} ${role}`)));

/** The condition that an invitation may be taken up: unused, not ended, and made by the operator or by a member whose role may still make it. */
export const isOpen = (
  now: number,
): SQL => sql`(invitations.used_by IS NULL AND invitations.expires_at > ${now} AND (invitations.invited_by IS NULL OR EXISTS (
  SELECT 1 FROM members AS inviter WHERE inviter.id = invitations.invited_by AND inviter.account_id = invitations.account_id AND inviter.removed_at IS NULL
    AND inviter.role || ' ' || invitations.role IN (SELECT value FROM json_each(${mayInvite})))))`;

/** The condition that an invitation is of this address, by its key. */
export const isTo = (emailKey: string): SQL => sql`(invitations.kind = 'invite' AND lower(invitations.email) = ${emailKey})`;

/** The open invitations of the account, the oldest first, with the name of the member who made each: null for the operator. `which`: of these alone. */
export const listInvitations = ({ db, actor, now }: ReadContext, which?: SQL): Promise<(Invitation & { invitedByName: string | null })[]> =>
  db
    .select({ ...getTableColumns(invitations), invitedByName: members.name })
    .from(invitations)
    .leftJoin(members, eq(members.id, invitations.invitedBy))
    .where(and(eq(invitations.accountId, actor.accountId), eq(invitations.kind, "invite"), isOpen(now), which))
    .orderBy(asc(invitations.createdAt), asc(invitations.id));

/**
 * The condition for invitations that end when a member gets another role, or (null) is removed. These are the invitations that they may no
 * longer make and those to their own address. With an owner it is also the setup link, because nobody knows who has it.
 */
export function endsWith({ id, accountId, emailKey, role: before }: Member, role: Role | null, now: number): SQL {
  const still = JSON.stringify(role === null ? [] : managedBy(role));
  const isMadeInVain = sql`(invitations.invited_by = ${id} AND invitations.role NOT IN (SELECT value FROM json_each(${still})))`;
  const isSetup = before === "owner" ? sql`invitations.kind = 'setup'` : sql`false`;
  return sql`(invitations.account_id = ${accountId} AND invitations.used_by IS NULL AND invitations.expires_at > ${now} AND (${isMadeInVain} OR ${isTo(emailKey)} OR ${isSetup}))`;
}

/** The statements that end invitations, where `when` holds, and say so in the audit log. */
export const endInvitations = (writing: WriteContext, which: SQL, when: SQL): Statement[] => [
  storeAuditOfEach(
    writing,
    "member.invitation_withdrawn",
    "invitation",
    sql`SELECT id, nullif(email, '') AS name FROM invitations WHERE ${which} AND ${when}`,
  ),
  writing.db.delete(invitations).where(and(which, when)),
];
