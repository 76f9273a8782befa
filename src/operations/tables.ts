import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { partyTypes } from "../accounts/tables.ts";

/** What is still to be done to the keys and webhooks that end with a removed member: a row for each, until it is done. */
export const endings = sqliteTable(
  "endings",
  {
    accountId: text("account_id").notNull(),
    /** The key or webhook. */
    targetId: text("target_id").notNull(),
    /** What it is called, for people. */
    targetName: text("target_name").notNull(),
    action: text({ enum: ["revoke_key", "tell_disabled_key", "disable_webhook"] }).notNull(),
    /** Who removed the member, and from where. */
    actorType: text("actor_type", { enum: partyTypes }).notNull(),
    actorId: text("actor_id"),
    ip: text(),
    country: text(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.targetId] }), index("endings_by_time").on(table.createdAt)],
);

/**
 * Attempts to sign in with an operator token or a recovery code, by source and clock minute. A source has one of 4,096 rows, by its hash:
 * many addresses make no more rows.
 */
export const signInAttempts = sqliteTable("sign_in_attempts", {
  slot: integer().primaryKey(),
  /** Hash of the kind of credential, the account if it is known, and the address. */
  source: text().notNull(),
  /** Minutes since the epoch. */
  minute: integer().notNull(),
  attempts: integer().notNull(),
});

/** How many wrong credentials were sent. */
export const signInFailures = sqliteTable("sign_in_failures", {
  credential: text({ enum: ["operator_token", "recovery_code"] }).primaryKey(),
  failures: integer().notNull(),
});

/** What operators did, by the name of their token. Of an account that was erased it keeps the id. */
export const operatorAudit = sqliteTable("operator_audit", {
  id: text().primaryKey(),
  operator: text().notNull(),
  action: text().notNull(),
  accountId: text("account_id"),
  /** What it was done to, where that is not the account: a key, say. */
  targetId: text("target_id"),
  /** What it was done with: numbers and names, never a secret. */
  details: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
});

/** Who looks at the operator's page. */
export const operatorSessions = sqliteTable("operator_sessions", {
  /** SHA-256 of what the cookie holds. */
  tokenHash: text("token_hash").primaryKey(),
  /** The name of the operator's token, and its SHA-256: the session ends with it. */
  operator: text().notNull(),
  operatorTokenHash: text("operator_token_hash").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

/** Accounts that are erased, or are being erased: their ids, and how far that is. */
export const erasures = sqliteTable("erasures", {
  accountId: text("account_id").primaryKey(),
  /** Where its log is. */
  activityStore: text("activity_store").notNull(),
  operator: text().notNull(),
  requestedAt: integer("requested_at").notNull(),
  /** How many rows and objects of each kind are gone. */
  erased: text({ mode: "json" }).$type<Record<string, number>>().notNull(),
  finishedAt: integer("finished_at"),
  /** When it was looked for what was still on its way then; null where that is to be done. */
  checkedAt: integer("checked_at"),
});
