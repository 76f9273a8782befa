import { foreignKey, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { accounts } from "../../db/areas/accounts/tables.ts";
import { users } from "../users/tables.ts";

export const tasks = sqliteTable(
  "tasks",
  {
    id: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    title: text().notNull(),
    description: text().notNull(),
    searchText: text("search_text").notNull(),
    status: text({ enum: ["todo", "in_progress", "done", "cancelled"] }).notNull(),
    priority: text({ enum: ["low", "normal", "high", "urgent"] }).notNull(),
    assigneeId: text("assignee_id"),
    labels: text({ mode: "json" }).$type<string[]>().notNull(),
    dueAt: integer("due_at"),
    completedAt: integer("completed_at"),
    revision: text().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    // This foreign key includes the account id, so the assignee of a task is always a user of the same account.
    foreignKey({ columns: [table.accountId, table.assigneeId], foreignColumns: [users.accountId, users.id] }),
    index("tasks_by_assignee").on(table.accountId, table.assigneeId, table.status, table.completedAt),
    index("tasks_by_update").on(table.accountId, table.updatedAt, table.id),
    index("tasks_by_due").on(table.accountId, table.dueAt, table.id),
    // This index contains all task columns of the analytics queries. Without the index, the queries would also read the description of every
    // task.
    index("tasks_for_analytics").on(
      table.accountId,
      table.status,
      table.priority,
      table.assigneeId,
      table.createdAt,
      table.completedAt,
      table.dueAt,
    ),
  ],
);
