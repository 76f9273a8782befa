import { and, asc, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { audited } from "../audit/audit.ts";
import type { Statement } from "../db/client.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import type { WriteContext } from "../webhooks/outbox.ts";
import { memberRemoved } from "./events.ts";
import { endInvitations, endsWith } from "./open-invitations.ts";
import { type Role, roles } from "./roles.ts";
import { members, passkeys, recoveryCodes, sessions } from "./tables.ts";

export type Member = typeof members.$inferSelect;

/** The members of the account, the oldest first. */
export const listMembers = ({ db, actor }: ReadContext): Promise<Member[]> =>
  db
    .select()
    .from(members)
    .where(and(eq(members.accountId, actor.accountId), isNull(members.removedAt)))
    .orderBy(asc(members.createdAt), asc(members.id));

/** One member of the account. Throws `not_found`. */
export async function readMember(reading: ReadContext, id: string): Promise<Member> {
  const member = await readPresentOrFormer(reading, id);
  if (member.removedAt !== null) throw noSuchMember();
  return member;
}

/** One member of the account, who may have been removed. Throws `not_found`. */
export async function readPresentOrFormer({ db, actor }: ReadContext, id: string): Promise<Member> {
  const [member] = await db
    .select()
    .from(members)
    .where(and(eq(members.accountId, actor.accountId), eq(members.id, id)));
  if (!member) throw noSuchMember();
  return member;
}

const noSuchMember = () => new Failure("not_found", "There is no such member.");

/** The condition that a member is there with the role that was read and, being an owner, not the last. */
function mayChange({ accountId, id, role }: Member): SQL {
  const isAsRead = sql`EXISTS (SELECT 1 FROM members WHERE id = ${id} AND role = ${role} AND removed_at IS NULL)`;
  const otherOwner = sql`EXISTS (SELECT 1 FROM members WHERE account_id = ${accountId} AND role = 'owner' AND removed_at IS NULL AND id <> ${id})`;
  return role === "owner" ? sql`(${isAsRead} AND ${otherOwner})` : isAsRead;
}

/** Returns why a member was not changed. Throws `not_found`. */
async function refusalOf(reading: ReadContext, { id, role }: Member): Promise<Failure> {
  const { name, role: current } = await readMember(reading, id);
  return current === role
    ? new Failure("conflict", "This is the last owner of the account. Make another member an owner first.")
    : new Failure("conflict", `Nothing was changed: ${name} is ${current} now, and was ${role} when you asked.`);
}

/**
 * Removes a member as read, with what they sign in with and the invitations that end with them. `alongside`: the statements that go with it, on
 * its condition. Throws `not_found`, and `conflict` for the
 * last owner and where the role was changed meanwhile.
 */
export async function removeMember(writing: WriteContext, member: Member, alongside: (when: SQL) => Statement[] = () => []): Promise<void> {
  const { db, now, commit } = writing;
  const { id } = member;
  const when = mayChange(member);
  const outcomes = await commit({
    evenWhereFull: true,
    result: null,
    events: [memberRemoved(member, now)],
    audit: [audited(writing, "member.removed", { type: "member", id, name: member.name })],
    statements: [
      ...alongside(when),
      ...endInvitations(writing, endsWith(member, null, now), when),
      ...[sessions, passkeys, recoveryCodes].map((table) => db.delete(table).where(and(eq(table.memberId, id), when))),
      db
        .update(members)
        .set({ removedAt: now })
        .where(and(eq(members.id, id), when))
        .returning({ id: members.id }),
    ],
    when,
  });
  if (!wrote(outcomes.at(-1))) throw await refusalOf(writing, member);
}

/**
 * Gives a member as read another role, and ends the invitations that it may not make. Throws `not_found`, and `conflict` for the last owner
 * and where the role was changed meanwhile.
 */
export async function changeRole(writing: WriteContext, member: Member, role: Role): Promise<void> {
  if (member.role === role) return;
  const { db, now, commit } = writing;
  const { id } = member;
  const when = mayChange(member);
  const outcomes = await commit({
    // The roles are in order, the highest first.
    evenWhereFull: roles.indexOf(role) > roles.indexOf(member.role),
    result: null,
    events: [],
    audit: [audited(writing, "member.role_changed", { type: "member", id, name: member.name }, ["role"])],
    statements: [
      ...endInvitations(writing, endsWith(member, role, now), when),
      db
        .update(members)
        .set({ role })
        .where(and(eq(members.id, id), when))
        .returning({ id: members.id }),
    ],
    when,
  });
  if (!wrote(outcomes.at(-1))) throw await refusalOf(writing, member);
}
