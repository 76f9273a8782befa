import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Something that happened, for webhooks and for `GET /events`. */
export const events = sqliteTable(
  "events",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    type: text().notNull(),
    data: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    /** The former values of what changed; null if the event tells of no change. */
    previous: text({ mode: "json" }).$type<Record<string, unknown>>(),
    createdAt: integer("created_at").notNull(),
    /** Counts up in the order in which the events of the account were stored: nothing comes before what a reader has passed. */
    sequence: integer().notNull(),
    /** The request that caused it; null where none did. */
    requestId: text("request_id"),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] }), index("events_by_sequence").on(table.accountId, table.sequence)],
);
