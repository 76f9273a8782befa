import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import type { Role } from "../../../src/identity/roles.ts";
import { dayMs } from "../../../src/lib/time/clock.ts";
import { db } from "./client.ts";

// Helpers that read and change rows of members, sessions, invitations and passkeys without the code under test.

/** Changes the email address of a member. `emailKey` is the form of the address that the sign-in looks up. */
export const setMemberEmail = (memberId: string, email: string, emailKey = email) =>
  env.DB.prepare("UPDATE members SET email = ?, email_key = ? WHERE id = ?").bind(email, emailKey, memberId).run();

export const setMemberRole = (memberId: string, role: Role) =>
  env.DB.prepare("UPDATE members SET role = ? WHERE id = ?").bind(role, memberId).run();

/** Marks a member as removed, but keeps the member's sessions, invitations and keys. */
export const markMemberRemoved = (memberId: string, removedAt = Date.now()) =>
  env.DB.prepare("UPDATE members SET removed_at = ? WHERE id = ?").bind(removedAt, memberId).run();

/** Moves a member to an arbitrary other account. */
export const moveToOtherAccount = (memberId: string) =>
  env.DB.prepare(
    "UPDATE members SET account_id = (SELECT id FROM accounts AS other WHERE other.id <> members.account_id LIMIT 1) WHERE id = ?",
  )
    .bind(memberId)
    .run();

/** Returns the time at which a member was removed, or null if the member was not removed. */
export const readRemovalTime = (memberId: string) =>
  env.DB.prepare("SELECT removed_at FROM members WHERE id = ?").bind(memberId).first<number>("removed_at");

export const readMemberId = (email: string) => env.DB.prepare("SELECT id FROM members WHERE email = ?").bind(email).first<string>("id");

/** Returns the account and the role of each current member with the given email address. */
export const readCurrentMembers = async (email: string) =>
  (
    await env.DB.prepare("SELECT account_id, role FROM members WHERE email = ? AND removed_at IS NULL")
      .bind(email)
      .all<{ account_id: string; role: Role }>()
  ).results;

/** Finds a current member of an account by email address. Returns the member's role, or null if the account has no such member. */
export const readCurrentRole = (accountId: string, email: string) =>
  env.DB.prepare("SELECT role FROM members WHERE account_id = ? AND email = ? AND removed_at IS NULL")
    .bind(accountId, email)
    .first<Role>("role");

/** Returns the ids of all members of an account, including removed members. */
export const readMemberIds = async (accountId: string) =>
  (await env.DB.prepare("SELECT id FROM members WHERE account_id = ?").bind(accountId).all<{ id: string }>()).results.map(({ id }) => id);

/** Adds members to an account. Each member id consists of `idPrefix` and a number with seven digits. */
export const insertMembers = (accountId: string, count: number, idPrefix: string, removedAt: number | null = null) =>
  db.run(sql`INSERT INTO members (id, account_id, name, email, email_key, role, removed_at, created_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${count})
    SELECT printf('%s%07d', ${idPrefix}, n), ${accountId}, 'Inserted', n || '@example.com', n || '@example.com', 'viewer', ${removedAt}, 1
    FROM counted`);

export const readSessionId = (memberId: string) =>
  env.DB.prepare("SELECT id FROM sessions WHERE member_id = ?").bind(memberId).first<string>("id");

/** Returns the time at which a member last used any of their sessions. */
export const readLastSeen = (memberId: string) =>
  env.DB.prepare("SELECT max(last_seen_at) AS last_seen_at FROM sessions WHERE member_id = ?").bind(memberId).first<number>("last_seen_at");

/** Moves the time in `column` back by `ms` milliseconds, for all sessions of a member. */
export const backdateSessions = (memberId: string, column: "verified_at" | "last_seen_at" | "created_at", ms: number) =>
  env.DB.prepare(`UPDATE sessions SET ${column} = ${column} - ? WHERE member_id = ?`).bind(ms, memberId).run();

/** Moves the times of creation and of the last proof back by `ms` milliseconds, for all sessions of an account. */
export const expireSessions = (accountId: string, ms: number) =>
  env.DB.prepare(
    "UPDATE sessions SET created_at = created_at - ?1, verified_at = verified_at - ?1 WHERE member_id IN (SELECT id FROM members WHERE account_id = ?2)",
  )
    .bind(ms, accountId)
    .run();

/**
 * Adds sessions to every member that `insertMembers` added to an account. Each session id ends with a number of three digits. A session
 * with a higher number has a later last use.
 */
export const insertSessions = (accountId: string, countPerMember: number, now: number) =>
  db.run(sql`INSERT INTO sessions (token_hash, id, member_id, verified_at, last_seen_at, created_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${countPerMember})
    SELECT members.id || printf('_%03d', n), 'ses_' || members.id || printf('_%03d', n), members.id, ${now}, ${now} + n, ${now}
    FROM members, counted WHERE account_id = ${accountId} AND name = 'Inserted'`);

/** Whether a table has rows that belong to a member. */
export const hasRowsOfMember = async (table: "passkeys" | "recovery_codes" | "sessions", memberId: string) =>
  (await env.DB.prepare(`SELECT 1 FROM ${table} WHERE member_id = ?`).bind(memberId).first()) !== null;

/** Changes the role in all open invitations and setup links of an account. */
export const setRoleOfOpenInvitations = (accountId: string, role: Role) =>
  env.DB.prepare("UPDATE invitations SET role = ? WHERE account_id = ? AND used_by IS NULL").bind(role, accountId).run();

/**
 * Changes the recipient of all open invitations of an account. `invitedBy` is the new inviter. If `invitedBy` is null, the invitations keep
 * their inviter.
 */
export const redirectOpenInvitations = (accountId: string, email: string, invitedBy: string | null = null) =>
  env.DB.prepare(
    "UPDATE invitations SET email = ?, invited_by = coalesce(?, invited_by) WHERE account_id = ? AND used_by IS NULL AND kind = 'invite'",
  )
    .bind(email, invitedBy, accountId)
    .run();

/** Sets the expiry of all invitations and setup links of an account. */
export const setExpiryOfInvitations = (accountId: string, expiresAt: number) =>
  env.DB.prepare("UPDATE invitations SET expires_at = ? WHERE account_id = ?").bind(expiresAt, accountId).run();

export const readInvitationId = (email: string) =>
  env.DB.prepare("SELECT id FROM invitations WHERE email = ?").bind(email).first<string>("id");

/** Counts the open invitations and setup links of an account. */
export const countOpenInvitations = (accountId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM invitations WHERE account_id = ? AND used_by IS NULL")
    .bind(accountId)
    .first<number>("count");

/** Counts the invitations of an account. Does not count setup links. */
export const countInvitations = (accountId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM invitations WHERE account_id = ? AND kind = 'invite'")
    .bind(accountId)
    .first<number>("count");

/** Adds `count` invitations to an account, all with the same email address and the role `viewer`. */
export const insertInvitations = (accountId: string, email: string, { count, createdAt }: { count: number; createdAt: number }) =>
  env.DB.prepare(
    `INSERT INTO invitations (token_hash, id, account_id, kind, role, email, expires_at, created_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?1)
      SELECT lower(hex(randomblob(32))), 'inv_' || lower(hex(randomblob(16))), ?2, 'invite', 'viewer', ?3, ?4 + ${dayMs}, ?4 FROM counted`,
  )
    .bind(count, accountId, email, createdAt)
    .run();

export const countPasskeys = (memberId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM passkeys WHERE member_id = ?").bind(memberId).first<number>("count");

/** Returns the ids of the members who have a passkey with the id `passkeyId`. */
export const readOwnersOfPasskey = async (passkeyId: string) =>
  (await env.DB.prepare("SELECT member_id FROM passkeys WHERE id = ?").bind(passkeyId).all<{ member_id: string }>()).results.map(
    ({ member_id }) => member_id,
  );

export const countRecoveryCodes = (memberId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM recovery_codes WHERE member_id = ?").bind(memberId).first<number>("count");

/** Counts the WebAuthn challenges that have been used. */
export const countSpentChallenges = () => env.DB.prepare("SELECT count(*) AS count FROM spent_challenges").first<number>("count");
