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
