import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The log of requests. The time of an entry is in its id. */
export const activity = sqliteTable(
  "activity",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    keyId: text("key_id").notNull(),
    method: text().notNull(),
    path: text().notNull(),
    route: text().notNull(),
    status: integer().notNull(),
    durationMs: integer("duration_ms").notNull(),
    ip: text(),
    country: text(),
    userAgent: text("user_agent"),
    errorCode: text("error_code"),
    /** Whether the guard let the request run; response times are taken of these alone. */
    admitted: integer({ mode: "boolean" }).notNull(),
    /** Whether the request counted against the limit. */
    counted: integer({ mode: "boolean" }).notNull(),
    /** How many requests the entry stands for: more than one only for aggregated refusals. */
    count: integer().notNull(),
    /** Which secret of the key it came with; null in entries from before that was noted. */
    secret: text({ enum: ["current", "previous"] }),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] })],
);

/** Where the log of an account begins, once entries have been deleted: none from before is taken any more, and no slice from before is folded. */
export const logStarts = sqliteTable("log_starts", {
  accountId: text("account_id").primaryKey(),
  /** The start of a slice. */
  startsAt: integer("starts_at").notNull(),
  /** What ids of entries from then on are not below. */
  firstId: text("first_id").notNull(),
});
