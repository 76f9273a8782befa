import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Responses that are stored for 24 hours under the Idempotency-Key of their request. */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    accountId: text("account_id").notNull(),
    /** The method and the path, for example `POST /api/v1/tasks`. */
    operation: text().notNull(),
    /** The SHA-256 hash of the Idempotency-Key, in hex. The key itself is not stored, because clients may put secrets into it. */
    keyHash: text("key_hash").notNull(),
    /** The SHA-256 hash of the query and the body, in hex. A JSON body is hashed in canonical form. */
    fingerprint: text().notNull(),
    status: integer().notNull(),
    headers: text({ mode: "json" }).$type<Record<string, string>>().notNull(),
    body: text().notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.operation, table.keyHash] })],
);
