import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The events of all accounts, for `GET /events` and for webhooks. */
export const events = sqliteTable(
  "events",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    type: text().notNull(),
    data: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    /** The former values of the members that changed. Null if the event does not describe a change. */
    previous: text({ mode: "json" }).$type<Record<string, unknown>>(),
    createdAt: integer("created_at").notNull(),
    /** Increases in the order in which the account's events were stored. A new event always sorts after the events that a client has already read. */
    sequence: integer().notNull(),
    /** The request that caused the event. Null if no request caused it. */
    requestId: text("request_id"),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] }), index("events_by_sequence").on(table.accountId, table.sequence)],
);
