import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { accounts } from "../../db/areas/accounts/tables.ts";

export const users = sqliteTable(
  "users",
  {
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    email: text().notNull(),
    /** The email address in lower case. Two addresses that differ only in upper and lower case count as the same address. */
    emailKey: text("email_key").notNull(),
    /** The name and the email address in lower case, for the filter `q`. SQLite's own function `lower` converts only ASCII letters. */
    searchText: text("search_text").notNull(),
    role: text({ enum: ["admin", "member", "viewer"] }).notNull(),
    status: text({ enum: ["active", "suspended"] }).notNull(),
    /**
     * The time at which the deletion of the user was requested, in milliseconds since the epoch. If the deletion of a user was requested,
     * the user is hidden. The row is deleted when no task refers to the user any more.
     */
    deletionRequestedAt: integer("deletion_requested_at"),
    revision: text().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    uniqueIndex("users_by_email").on(table.accountId, table.emailKey),
    index("users_to_delete").on(table.accountId, table.deletionRequestedAt).where(sql`deletion_requested_at IS NOT NULL`),
  ],
);
