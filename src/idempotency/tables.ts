import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Responses kept for 24 hours under the Idempotency-Key of their request. */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    accountId: text("account_id").notNull(),
    /** Method and path: `POST /api/v1/tasks`. */
    operation: text().notNull(),
    /** SHA-256 of the Idempotency-Key, hex: clients put anything into one, secrets too. */
    keyHash: text("key_hash").notNull(),
    /** SHA-256 over query and body, hex. A body of JSON is hashed in its canonical form. */
    fingerprint: text().notNull(),
    status: integer().notNull(),
    headers: text({ mode: "json" }).$type<Record<string, string>>().notNull(),
    body: text().notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.operation, table.keyHash] })],
);
