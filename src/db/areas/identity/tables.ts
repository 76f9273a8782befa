import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { accounts } from "../accounts/tables.ts";

/**
 * The members who sign in to the overview of an account. The row of a removed member is kept, so that the audit log can show the member's
 * name.
 */
export const members = sqliteTable(
  "members",
  {
    id: text().primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    email: text().notNull(),
    /** The lookup key of the email address: ASCII letters in lower case, all other characters unchanged. */
    emailKey: text("email_key").notNull(),
    role: text({ enum: ["owner", "admin", "developer", "viewer"] }).notNull(),
    /**
     * The id of the person in the team's own system, for a member who comes by portal links. Null for all others. The email address of such a
     * member is the team's word, so nothing looks for it: `email_key` is empty.
     */
    externalId: text("external_id"),
    removedAt: integer("removed_at"),
    lastSeenAt: integer("last_seen_at"),
    createdAt: integer("created_at").notNull(),
    /** The time zone in which pages show times to the member. Null until the member has chosen one. */
    zone: text({ enum: ["utc", "local"] }),
  },
  (table) => [
    index("members_by_account").on(table.accountId, table.removedAt),
    uniqueIndex("members_by_email").on(table.emailKey, table.accountId).where(sql`removed_at IS NULL AND email_key <> ''`),
    uniqueIndex("members_by_external_id").on(table.accountId, table.externalId).where(sql`removed_at IS NULL AND external_id IS NOT NULL`),
    index("former_members_by_email").on(table.emailKey, table.accountId).where(sql`removed_at IS NOT NULL`),
  ],
);

export type Member = typeof members.$inferSelect;

export const passkeys = sqliteTable(
  "passkeys",
  {
    /** The credential id in base64url. */
    id: text().primaryKey(),
    memberId: text("member_id")
      .notNull()
      .references(() => members.id),
    name: text().notNull(),
    /** The public key in COSE format, in base64url. */
    publicKey: text("public_key").notNull(),
    counter: integer().notNull(),
    transports: text({ mode: "json" }).$type<string[]>().notNull(),
    lastUsedAt: integer("last_used_at"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("passkeys_by_member").on(table.memberId)],
);

/** Single-use codes that let a member sign in when no passkey is available. */
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
    /** The SHA-256 hash of the token in the session cookie. */
    tokenHash: text("token_hash").primaryKey(),
    id: text().notNull(),
    memberId: text("member_id")
      .notNull()
      .references(() => members.id),
    /** The credential that opened the session: the id of a passkey, the hash of a recovery code, or the id of a portal link. */
    openedWith: text("opened_with").notNull().default(""),
    /** The time at which the member last proved their identity with a passkey or a recovery code. */
    verifiedAt: integer("verified_at").notNull(),
    /** The credential with which the member last proved their identity. */
    confirmedWith: text("confirmed_with").notNull().default(""),
    lastSeenAt: integer("last_seen_at").notNull(),
    ip: text(),
    country: text(),
    userAgent: text("user_agent"),
    /** The team's page to which a session of a portal link leads back. Null for all others. */
    returnUrl: text("return_url"),
    /** The id of the service token that created the portal link. Null for all other sessions, and if an operator created it. */
    portalTokenId: text("portal_token_id"),
    /** Whether the session is one of a frame in a page of the team. */
    isFramed: integer("is_framed", { mode: "boolean" }).notNull().default(false),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("sessions_by_member").on(table.memberId, table.lastSeenAt),
    uniqueIndex("sessions_by_id").on(table.id),
    index("sessions_by_creation").on(table.createdAt),
  ],
);

/** Single-use links that create a member. A setup link creates an owner, and an invitation creates a member with a chosen role. */
export const invitations = sqliteTable(
  "invitations",
  {
    /** The SHA-256 hash of the token in the link. */
    tokenHash: text("token_hash").primaryKey(),
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    kind: text({ enum: ["setup", "invite"] }).notNull(),
    role: text({ enum: ["owner", "admin", "developer", "viewer"] }).notNull(),
    /** The email address of the invited person, or an empty string for a setup link. */
    email: text().notNull(),
    /** The id of the member or of the service token that created the invitation. Null if an operator created it. */
    invitedBy: text("invited_by"),
    /** The id of the member who accepted the invitation. Null if the invitation is unused. */
    usedBy: text("used_by"),
    expiresAt: integer("expires_at").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("invitations_by_account").on(table.accountId, table.expiresAt),
    // SQLite's `lower` changes only ASCII letters, so its result has the same form as `members.email_key`.
    index("invitations_by_email").on(sql`lower(email)`).where(sql`used_by IS NULL`),
  ],
);

/** Single-use links with which the team lets a person of a customer in, from its own app. */
export const portalLinks = sqliteTable(
  "portal_links",
  {
    /** The SHA-256 hash of the token in the link. */
    tokenHash: text("token_hash").primaryKey(),
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    /** The member that the link opens: the id in the team's own system, an address (empty if none is known) and a name. */
    externalId: text("external_id").notNull(),
    email: text().notNull(),
    name: text().notNull(),
    role: text({ enum: ["owner", "admin", "developer", "viewer"] }).notNull(),
    returnUrl: text("return_url").notNull(),
    /** The path of the page that opens. */
    page: text().notNull(),
    isFramed: integer("is_framed", { mode: "boolean" }).notNull(),
    /** The id of the service token that created the link. Null if an operator created it. */
    createdBy: text("created_by"),
    claimedAt: integer("claimed_at"),
    expiresAt: integer("expires_at").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("portal_links_by_account").on(table.accountId, table.expiresAt)],
);

/** Challenges that passkeys have signed. A row is kept until its challenge expires, so that each challenge can be used only once. */
export const spentChallenges = sqliteTable(
  "spent_challenges",
  {
    /** The SHA-256 hash of the challenge. */
    challengeHash: text("challenge_hash").primaryKey(),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [index("spent_challenges_by_expiry").on(table.expiresAt)],
);
