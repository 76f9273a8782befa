import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

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
