import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

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

export const operatorSessions = sqliteTable("operator_sessions", {
  /** The SHA-256 of the session token in the cookie. */
  tokenHash: text("token_hash").primaryKey(),
  /** The name of the operator token. */
  operator: text().notNull(),
  /** The SHA-256 of the operator token. When the operator token is removed, the session ends. */
  operatorTokenHash: text("operator_token_hash").notNull(),
  expiresAt: integer("expires_at").notNull(),
});
