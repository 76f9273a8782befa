import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { accounts } from "../accounts/tables.ts";

/** People who sign in to the overview of an account. One that was removed stays, for the audit to name. */
export const members = sqliteTable(
  "members",
  {
    id: text().primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    email: text().notNull(),
    /** The address by which members are found: its ASCII letters in lower case, the rest as it is. */
    emailKey: text("email_key").notNull(),
    role: text({ enum: ["owner", "admin", "developer", "viewer"] }).notNull(),
    removedAt: integer("removed_at"),
    lastSeenAt: integer("last_seen_at"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("members_by_account").on(table.accountId, table.removedAt),
    uniqueIndex("members_by_email").on(table.emailKey, table.accountId).where(sql`removed_at IS NULL`),
    index("former_members_by_email").on(table.emailKey, table.accountId).where(sql`removed_at IS NOT NULL`),
  ],
);

/** What members sign in with. */
export const passkeys = sqliteTable(
  "passkeys",
  {
    /** The credential's id, base64url. */
    id: text().primaryKey(),
    memberId: text("member_id")
      .notNull()
      .references(() => members.id),
    name: text().notNull(),
    /** COSE, base64url. */
    publicKey: text("public_key").notNull(),
    counter: integer().notNull(),
    transports: text({ mode: "json" }).$type<string[]>().notNull(),
    lastUsedAt: integer("last_used_at"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("passkeys_by_member").on(table.memberId)],
);

/** What a member gets in with once, where no passkey is at hand. */
export const recoveryCodes = sqliteTable(
  "recovery_codes",
  {
    codeHash: text("code_hash").primaryKey(),
    memberId: text("member_id")
      .notNull()
      .references(() => members.id),
    usedAt: integer("used_at"),
  },
  (table) => [index("recovery_codes_by_member").on(table.memberId)],
);

export const sessions = sqliteTable(
  "sessions",
  {
    /** SHA-256 of what the cookie holds. */
    tokenHash: text("token_hash").primaryKey(),
    id: text().notNull(),
    memberId: text("member_id")
      .notNull()
      .references(() => members.id),
    /** When a passkey or a recovery code last showed who it is. */
    verifiedAt: integer("verified_at").notNull(),
    lastSeenAt: integer("last_seen_at").notNull(),
    ip: text(),
    country: text(),
    userAgent: text("user_agent"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("sessions_by_member").on(table.memberId, table.lastSeenAt),
    uniqueIndex("sessions_by_id").on(table.id),
    index("sessions_by_creation").on(table.createdAt),
  ],
);

/** Links that create a member once: the first owner (setup), or the person whom a member invites. */
export const invitations = sqliteTable(
  "invitations",
  {
    /** SHA-256 of what the link carries. */
    tokenHash: text("token_hash").primaryKey(),
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    kind: text({ enum: ["setup", "invite"] }).notNull(),
    role: text({ enum: ["owner", "admin", "developer", "viewer"] }).notNull(),
    /** Whom it was meant for; empty for a setup. */
    email: text().notNull(),
    invitedBy: text("invited_by"),
    /** The member that it has made. */
    usedBy: text("used_by"),
    expiresAt: integer("expires_at").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("invitations_by_account").on(table.accountId, table.expiresAt),
    // `lower` of SQLite folds ASCII letters alone, as `emailKey` of a member does.
    index("invitations_by_email").on(sql`lower(email)`).where(sql`used_by IS NULL`),
  ],
);

/** What passkeys have signed, until it would have ended anyway: each challenge counts once. */
export const spentChallenges = sqliteTable(
  "spent_challenges",
  {
    /** SHA-256 of the challenge. */
    challengeHash: text("challenge_hash").primaryKey(),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [index("spent_challenges_by_expiry").on(table.expiresAt)],
);
