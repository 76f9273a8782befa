import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { partyTypes } from "../accounts/tables.ts";

/** The remaining work on keys and webhooks of removed members. A row is deleted when its work is done. */
export const endings = sqliteTable(
  "endings",
  {
    accountId: text("account_id").notNull(),
    /** The id of the key or webhook. */
    targetId: text("target_id").notNull(),
    /** The name of the key, or the URL of the webhook. */
    targetName: text("target_name").notNull(),
    action: text({ enum: ["revoke_key", "tell_disabled_key", "disable_webhook"] }).notNull(),
    /** The actor who removed the member. */
    actorType: text("actor_type", { enum: partyTypes }).notNull(),
    actorId: text("actor_id"),
    /** The IP address of the request that removed the member. */
    ip: text(),
    country: text(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.targetId] }), index("endings_by_time").on(table.createdAt)],
);

/**
 * Sign-in attempts with an operator token or a recovery code, by source and clock minute. The hash of a source selects one of 4,096 rows, so a flood
 * from many addresses does not create more rows.
 */
export const signInAttempts = sqliteTable("sign_in_attempts", {
  slot: integer().primaryKey(),
  /** A hash of the kind of credential, the member (if known) and the network of the IP address. */
  source: text().notNull(),
  /** The clock minute of the attempts, in minutes since the Unix epoch. */
  minute: integer().notNull(),
  attempts: integer().notNull(),
});

/** The number of wrong credentials that the service received, by kind of credential. */
export const signInFailures = sqliteTable("sign_in_failures", {
  credential: text({ enum: ["operator_token", "recovery_code"] }).primaryKey(),
  failures: integer().notNull(),
});

/** The actions of operators, with the names of their tokens. After an account is erased, this table still contains the id of the account. */
export const operatorAudit = sqliteTable("operator_audit", {
  id: text().primaryKey(),
  operator: text().notNull(),
  action: text().notNull(),
  accountId: text("account_id"),
  /** The id of the object that was changed, such as a key, or null if the account itself was changed. */
  targetId: text("target_id"),
  /** Details of the action: numbers and names, but never a secret. */
  details: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
});

/** Sessions of the operator page. */
export const operatorSessions = sqliteTable("operator_sessions", {
  /** The SHA-256 of the session token in the cookie. */
  tokenHash: text("token_hash").primaryKey(),
  /** The name of the operator token. */
  operator: text().notNull(),
  /** The SHA-256 of the operator token. The session ends when the operator token is removed. */
  operatorTokenHash: text("operator_token_hash").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

/** Accounts that are erased or being erased: their ids and the progress of the erasure. */
export const erasures = sqliteTable("erasures", {
  accountId: text("account_id").primaryKey(),
  /** The binding of the database that contains the account's log. */
  activityStore: text("activity_store").notNull(),
  operator: text().notNull(),
  requestedAt: integer("requested_at").notNull(),
  /** The number of deleted rows and objects of each kind. */
  erased: text({ mode: "json" }).$type<Record<string, number>>().notNull(),
  finishedAt: integer("finished_at"),
  /** The time at which the finished erasure was checked for late data, or null if the check is still to be done. */
  checkedAt: integer("checked_at"),
});
