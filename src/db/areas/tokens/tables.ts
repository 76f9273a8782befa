import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The service tokens of the deployment. The rows of revoked tokens are kept. */
export const serviceTokens = sqliteTable(
  "service_tokens",
  {
    id: text().primaryKey(),
    name: text().notNull(),
    scopes: text({ mode: "json" }).$type<string[]>().notNull(),
    /** The ids of the accounts that the token may act on. Null means all accounts. */
    accountIds: text("account_ids", { mode: "json" }).$type<string[]>(),
    /** The SHA-256 of the whole token, in hex. */
    tokenHash: text("token_hash").notNull(),
    /** The name of the operator token or service token that created this token. */
    createdBy: text("created_by").notNull(),
    /** The id of the service token that created this token. Null if an operator token created it. */
    createdById: text("created_by_id"),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at"),
    revokedAt: integer("revoked_at"),
  },
  (table) => [index("service_tokens_by_revocation").on(table.revokedAt), index("service_tokens_by_creator").on(table.createdById)],
);
