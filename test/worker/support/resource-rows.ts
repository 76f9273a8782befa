import { env } from "cloudflare:workers";

// Reads and writes the rows of users and tasks in D1. Tests use these helpers for states and numbers of rows that no API call creates.

// ---- Tasks

interface NewTaskRows {
  count: number;
  title?: string;
  description?: string;
  /** The text in which the search looks for matches, in lower case. */
  searchText?: string;
  status?: string;
  assigneeId?: string | null;
}

/** Inserts `count` tasks for an account. The creation times of the tasks are one millisecond apart. */
export const insertTasks = (
  accountId: string,
  { count, title = "Task", description = "", searchText = title.toLowerCase(), status = "todo", assigneeId = null }: NewTaskRows,
) =>
  env.DB.prepare(
    `INSERT INTO tasks
      (id, account_id, title, description, search_text, status, priority, assignee_id, labels, revision, created_at, updated_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?1)
      SELECT printf('tsk_ff%s%06x', lower(hex(randomblob(12))), n), ?2, ?3, ?4, ?5, ?6, 'normal', ?7, '[]',
        lower(hex(randomblob(8))), ?8 + n, ?8 + n
      FROM counted`,
  )
    .bind(count, accountId, title, description, searchText, status, assigneeId, Date.now())
    .run();

export const countAssignedTasks = async (userId: string): Promise<number> =>
  (await env.DB.prepare("SELECT count(*) AS count FROM tasks WHERE assignee_id = ?").bind(userId).first<number>("count")) ?? 0;

/** Returns the title and the revision of each unassigned task of an account. */
export const readUnassignedTasks = async (accountId: string) =>
  (
    await env.DB.prepare("SELECT title, revision FROM tasks WHERE account_id = ? AND assignee_id IS NULL")
      .bind(accountId)
      .all<{ title: string; revision: string }>()
  ).results;

// ---- Users

/** Whether D1 still has the row of a user. A user who is being deleted may still have a row. */
export const hasUserRow = async (userId: string): Promise<boolean> =>
  (await env.DB.prepare("SELECT 1 FROM users WHERE id = ?").bind(userId).first()) !== null;

/** Marks a user as being deleted since `requestedAt`. Does not change the user's tasks. */
export const requestDeletion = (userId: string, requestedAt: number) =>
  env.DB.prepare("UPDATE users SET deletion_requested_at = ? WHERE id = ?").bind(requestedAt, userId).run();

/** Inserts `count` users for an account. The users are being deleted and have no tasks. */
export const insertUsersInDeletion = (accountId: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO users
      (id, account_id, name, email, email_key, search_text, role, status, deletion_requested_at, revision, created_at, updated_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?1)
      SELECT 'usr_' || lower(hex(randomblob(16))), ?2, 'Leaving', n || '@example.com', n || '@example.com', '', 'member', 'active', ?3,
        '0', 1, 1
      FROM counted`,
  )
    .bind(count, accountId, Date.now())
    .run();
