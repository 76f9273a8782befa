import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { accounts } from "../../accounts/tables.ts";

export const users = sqliteTable(
  "users",
  {
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    email: text().notNull(),
    /** The address in lower case: two that differ in case alone are one. */
    emailKey: text("email_key").notNull(),
    /** Name and address in lower case, for `q`: SQLite folds the case of ASCII only. */
    searchText: text("search_text").notNull(),
    role: text({ enum: ["admin", "member", "viewer"] }).notNull(),
    status: text({ enum: ["active", "suspended"] }).notNull(),
    /** When its deletion was asked for: from then on nobody sees it. The row goes once none of its tasks points to it. */
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
