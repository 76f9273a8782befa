import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The events of all accounts, for `GET /events` and for webhooks. */
export const events = sqliteTable(
  "events",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    type: text().notNull(),
    data: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    /** The previous values of changed members of `data`. Null if the event does not describe a change. */
    previous: text({ mode: "json" }).$type<Record<string, unknown>>(),
    createdAt: integer("created_at").notNull(),
    /**
     * The sequence number, which increases in the order in which the account's events are stored. A new event therefore sorts after all
     * events that a client has already read.
     */
    sequence: integer().notNull(),
    /** The request that caused the event. Null if no request caused the event. */
    requestId: text("request_id"),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] }), index("events_by_sequence").on(table.accountId, table.sequence)],
);
