import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { partyTypes } from "../accounts/tables.ts";

/** The remaining work on keys and webhooks of removed members. When the work of a row is done, the row is deleted. */
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
 * Counts of sign-in attempts with an operator token or a recovery code, by source and clock minute. The hash of the source selects one of 4,096
 * rows, so a flood from many addresses cannot create more rows.
 */
export const signInAttempts = sqliteTable("sign_in_attempts", {
  slot: integer().primaryKey(),
  /** A hash of three values: the kind of credential, the id of the member (if known), and the network of the IP address. */
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
export const operatorAudit = sqliteTable(
  "operator_audit",
  {
    id: text().primaryKey(),
    /** The name of the operator token or the service token. */
    operator: text().notNull(),
    /** The id of the service token, or null if an operator token was used. */
    tokenId: text("token_id"),
    action: text().notNull(),
    accountId: text("account_id"),
    /** The id of the changed object, for example the id of a key. If the account itself was changed, this value is null. */
    targetId: text("target_id"),
    /** Numbers and names that describe the action, but never a secret. */
    details: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
  },
  (table) => [index("operator_audit_by_account").on(table.accountId, table.id)],
);

/** Sessions of the operator page. */
export const operatorSessions = sqliteTable("operator_sessions", {
  /** The SHA-256 of the session token in the cookie. */
  tokenHash: text("token_hash").primaryKey(),
  /** The name of the operator token. */
  operator: text().notNull(),
  /** The SHA-256 of the operator token. When the operator token is removed, the session ends. */
  operatorTokenHash: text("operator_token_hash").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

/** The finished and unfinished erasures of accounts. A row contains the account id and the progress of the erasure. */
export const erasures = sqliteTable("erasures", {
  accountId: text("account_id").primaryKey(),
  /** The binding of the database that contains the account's log. */
  logWriter: text("log_writer").notNull(),
  operator: text().notNull(),
  requestedAt: integer("requested_at").notNull(),
  /** For each kind of data, the number of deleted rows or objects. */
  erased: text({ mode: "json" }).$type<Record<string, number>>().notNull(),
  finishedAt: integer("finished_at"),
  /** The time at which the finished erasure was checked for late data, or null if the check is not done yet. */
  checkedAt: integer("checked_at"),
});

/** What the scheduled job `send_alerts` remembers from one run to the next: one row. Its form is `Alerting` in alerts.ts. */
export const alerting = sqliteTable("alerting", {
  /** Always 1. */
  only: integer().primaryKey(),
  state: text({ mode: "json" }).$type<object>().notNull(),
});
