import { and, eq, isNull, type SQL, sql } from "drizzle-orm";
import { audited, auditKeptMs } from "../audit/audit.ts";
import type { Db, Statement } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { insertWhere } from "../db/insert-where.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import { newId } from "../ids/ids.ts";
import { dayMs } from "../time/clock.ts";
import type { WriteContext } from "../webhooks/outbox.ts";
import { requireEmailKey } from "./email.ts";
import { memberInvited } from "./events.ts";
import type { Invitation } from "./open-invitations.ts";
import type { Role } from "./roles.ts";
import { invitations } from "./tables.ts";
import { newToken } from "./tokens.ts";

export const keptMs = 7 * dayMs;

/**
 * Makes the link by which an owner of an account comes in, the first one or a further one, and ends the one before. Answers what the link
 * carries. `alongside`: statements that go with it.
 */
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

/** The condition that nobody with this address, by its key, is a member of the account. */
export const isNoMember = (accountId: string, emailKey: string): SQL =>
  sql`NOT EXISTS (SELECT 1 FROM members WHERE account_id = ${accountId} AND email_key = ${emailKey} AND removed_at IS NULL)`;

/** Members and open invitations that an account may have. It bounds their sessions too, which are opened even where the account's storage is full. */
export const maxMembers = 1_000;

const peopleOf = (accountId: string, now: number): SQL =>
  sql`((SELECT count(*) FROM members WHERE account_id = ${accountId} AND removed_at IS NULL)
    + (SELECT count(*) FROM invitations WHERE account_id = ${accountId} AND used_by IS NULL AND expires_at > ${now}))`;

/**
 * Invites somebody, for seven days. Returns what the link carries, shown this once. Throws `conflict` for who is a member already, `limit_reached` where
 * the account has all the people that it may have, and `invalid_body`.
 */
export async function invite(
  writing: WriteContext,
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
  const people = peopleOf(actor.accountId, now);
  const isNew = isNoMember(actor.accountId, requireEmailKey(email));
  const when = sql`(${isNew} AND ${people} < ${maxMembers})`;
  const [made] = await commit({
    result: null,
    events: [memberInvited({ ...invitation, name: "" }, now)],
    audit: [audited(writing, "member.invited", { type: "invitation", id: invitation.id, name: email }, ["role"])],
    statements: [insertWhere(db, invitations, invitation, when)],
    when,
  });
  if (wrote(made)) return { invitation, token };
  const [counted] = await db.all<{ people: number }>(sql`SELECT ${people} AS people`);
  throw counted && counted.people >= maxMembers
    ? new Failure(
        "limit_reached",
        `An account may have ${maxMembers.toLocaleString("en")} members and open invitations. Remove or withdraw some first.`,
      )
    : new Failure("conflict", "Somebody with this address is a member already.");
}

/** Ends an invitation that nobody has taken up. Throws `not_found`. */
export async function withdrawInvitation(writing: WriteContext, id: string): Promise<void> {
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

/** Deletes invitations of accounts that ended longer ago than the audit log goes back, at most `atMost`. Answers how many went. */
export const deleteOldInvitations = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM invitations WHERE token_hash IN (SELECT token_hash FROM json_each(${JSON.stringify(accountIds)}) AS due
      CROSS JOIN invitations ON invitations.account_id = due.value AND expires_at < ${now - auditKeptMs} LIMIT ${limit})`,
  );
