import { and, asc, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { Actor, Origin, ReadContext } from "../accounts/actor.ts";
import { type Member, members, passkeys, recoveryCodes, sessions } from "../db/areas/identity/tables.ts";
import { isFailedCondition, requireInBatch } from "../db/batch-condition.ts";
import type { Db } from "../db/client.ts";
import { wrote } from "../db/optimistic-locking.ts";
import type { Guards } from "../guard/guards.ts";
import { endTemporarySecretsOf } from "../keys/temporary-secrets.ts";
import { Failure } from "../lib/errors/failure.ts";
import { auditEntry } from "../outbox/audit.ts";
import type { Change, WriteContext } from "../outbox/outbox.ts";
import { memberRemoved } from "./events.ts";
import { endInvitations, invitationsEndedBy } from "./open-invitations.ts";
import { endPortalAccess } from "./portal-access.ts";
import { type Role, roles } from "./roles.ts";

export type { Member };

/** Returns a member as the actor of a change, also before the member has a session. */
export const memberActor = ({ accountId, id }: Pick<Member, "accountId" | "id">, from: Origin): Actor => ({
  accountId,
  by: { type: "member", id },
  from,
});

/** Returns the current members of the account, oldest first. */
export const listMembers = ({ db, actor }: ReadContext): Promise<Member[]> =>
  db
    .select()
    .from(members)
    .where(and(eq(members.accountId, actor.accountId), isNull(members.removedAt)))
    .orderBy(asc(members.createdAt), asc(members.id));

/** Returns a current member of the account. Throws `not_found` if there is no such member. */
export async function readMember(context: ReadContext, id: string): Promise<Member> {
  const member = await readCurrentOrFormerMember(context, id);
  if (member.removedAt !== null) throw noSuchMember();
  return member;
}

/** Returns a current or former member of the account. Throws `not_found` if there is no such member. */
export async function readCurrentOrFormerMember({ db, actor }: ReadContext, id: string): Promise<Member> {
  const [member] = await db
    .select()
    .from(members)
    .where(and(eq(members.accountId, actor.accountId), eq(members.id, id)));
  if (!member) throw noSuchMember();
  return member;
}

/** Stores the time zone in which pages show times to a member. */
export const storeZone = (db: Db, id: string, zone: Member["zone"]) => db.update(members).set({ zone }).where(eq(members.id, id));

const noSuchMember = () => new Failure("not_found", "There is no such member.");

/**
 * Returns an SQL condition that is true if the member's role is unchanged and the member is not the last owner. An owner who comes by portal
 * links does not count: nobody could come in if the team made no more links.
 */
function mayChange({ accountId, id, role, externalId }: Member): SQL {
  const isAsRead = sql`EXISTS (SELECT 1 FROM members WHERE id = ${id} AND role = ${role} AND removed_at IS NULL)`;
  const otherOwner = sql`EXISTS (SELECT 1 FROM members WHERE account_id = ${accountId} AND role = 'owner' AND removed_at IS NULL AND external_id IS NULL AND id <> ${id})`;
  return role === "owner" && externalId === null ? sql`(${isAsRead} AND ${otherOwner})` : isAsRead;
}

/** Returns the failure that explains why a member could not be changed. Throws `not_found` if the member was removed. */
async function conflictOf(context: ReadContext, { id, role }: Member): Promise<Failure> {
  const { name, role: current } = await readMember(context, id);
  return current === role
    ? new Failure("conflict", "This is the last owner of the account. Make another member an owner first.")
    : new Failure("conflict", `Nothing was changed: ${name} is ${current} now, and was ${role} when you asked.`);
}

const mayRemove = "the member may be removed";

/**
 * Removes a member. Deletes the member's sessions, passkeys and recovery codes, and the invitations that end with the removal. `more` is
 * written in the same batch. Throws `not_found` if the member was already removed. Throws `conflict` if the member is the last owner, or if the
 * role changed after the member was read.
 */
export async function removeMember(
  context: WriteContext & { guards: Guards },
  member: Member,
  more: Pick<Change, "events" | "audit" | "statements"> = { events: [], statements: {} },
): Promise<void> {
  const { db, now, commit } = context;
  const { id } = member;
  try {
    await commit({
      whenFull: "write",
      events: [memberRemoved(member, now), ...more.events],
      audit: [auditEntry(context, "member.removed", { type: "member", id, name: member.name }), ...(more.audit ?? [])],
      statements: {
        required: requireInBatch(db, { holds: mayChange(member), name: mayRemove }),
        ...more.statements,
        invitations: endInvitations(context, invitationsEndedBy(member, null, now), sql`true`),
        links: member.externalId === null ? [] : endPortalAccess(db, member.accountId, { externalId: member.externalId }),
        signIn: [sessions, passkeys, recoveryCodes].map((table) => db.delete(table).where(eq(table.memberId, id))),
        removed: db.update(members).set({ removedAt: now }).where(eq(members.id, id)),
      },
    });
  } catch (error) {
    throw isFailedCondition(error, mayRemove) ? await conflictOf(context, member) : error;
  }
  await endTemporarySecretsOf(context, [id]);
}

/**
 * Changes the role of a member and ends the invitations that the member may no longer make or accept. Throws `not_found` if the member was
 * removed. Throws `conflict` if the member is the last owner, or if the role changed after the member was read.
 */
export async function changeRole(context: WriteContext & { guards: Guards }, member: Member, role: Role): Promise<void> {
  if (member.role === role) return;
  const { db, now, commit } = context;
  const { id } = member;
  const when = mayChange(member);
  const { changed } = await commit({
    // The list `roles` starts with the highest role, so a higher index means a demotion. A demotion is possible even when the account's
    // storage is full.
    whenFull: roles.indexOf(role) > roles.indexOf(member.role) ? "write" : "deny",
    events: [],
    audit: [auditEntry(context, "member.role_changed", { type: "member", id, name: member.name }, ["role"])],
    statements: {
      invitations: endInvitations(context, invitationsEndedBy(member, role, now), when),
      changed: db
        .update(members)
        .set({ role })
        .where(and(eq(members.id, id), when))
        .returning({ id: members.id }),
    },
    when,
  });
  if (!wrote(changed)) throw await conflictOf(context, member);
  await endTemporarySecretsOf(context, [id]);
}
