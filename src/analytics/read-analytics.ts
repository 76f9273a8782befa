import { and, count, desc, eq, gte, isNotNull, isNull, lt, or, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { dayMs, hourMs } from "../clock.ts";
import { raw } from "../db/client.ts";
import { tasks, users } from "../db/schema-main.ts";
import { percent, twoDecimals } from "../percent.ts";
import { priorities, type Task, taskStatuses } from "../tasks/task.ts";
import { bucketStart, bucketsOf, type Interval } from "./buckets.ts";

/** As many assignees as the answer names: those with the most tasks. */
const assigneesShown = 100;

const isOpen = sql`${tasks.status} IN ('todo', 'in_progress')`;

/**
 * Figures about the account's tasks and users. What happened is counted in the span `from` (inclusive) to `to`
 * (exclusive): created, completed, the completion rate of those created, the hours to completion of those completed, the
 * series. What is, is counted now: open, overdue, by status, by priority, users.
 */
export async function readAnalytics({ db, actor, now }: Reading, { from, to, interval }: { from: number; to: number; interval: Interval }) {
  const own = eq(tasks.accountId, actor.accountId);
  const isCreated = and(gte(tasks.createdAt, from), lt(tasks.createdAt, to)) as SQL;
  const isCompleted = and(gte(tasks.completedAt, from), lt(tasks.completedAt, to)) as SQL;
  const sumWhere = (condition: SQL) => sql<number>`coalesce(sum(${condition}), 0)`;
  const day = (column: typeof tasks.createdAt | typeof tasks.completedAt) => sql<number>`${column} / ${sql.raw(String(dayMs))}`;
  const completedInOrder = sql`SELECT completed_at - created_at AS taken, row_number() OVER (ORDER BY completed_at - created_at) AS rank,
    count(*) OVER () AS total FROM tasks WHERE ${own} AND ${isCompleted}`;

  const [[totals], byStatus, byPriority, [median], [people], byAssignee, createdByDay, completedByDay] = await db.batch([
    db
      .select({
        created: sumWhere(isCreated),
        createdAndDone: sumWhere(sql`(${isCreated}) AND ${tasks.status} = 'done'`),
        completed: sumWhere(isCompleted),
        open: sumWhere(isOpen),
        overdue: sumWhere(sql`${isOpen} AND ${tasks.dueAt} < ${now}`),
      })
      .from(tasks)
      .where(own),
    db.select({ name: tasks.status, tasks: count() }).from(tasks).where(own).groupBy(tasks.status),
    db.select({ name: tasks.priority, tasks: count() }).from(tasks).where(own).groupBy(tasks.priority),
    raw<{ taken: number | null }>(
      db,
      sql`SELECT avg(taken) AS taken FROM (${completedInOrder}) WHERE rank IN ((total + 1) / 2, (total + 2) / 2)`,
    ),
    db
      .select({ total: count(), active: sql<number>`coalesce(sum(${users.status} = 'active'), 0)` })
      .from(users)
      .where(and(eq(users.accountId, actor.accountId), isNull(users.deletionRequestedAt))),
    db
      .select({ userId: sql<string>`${tasks.assigneeId}`, open: sumWhere(isOpen), completed: sumWhere(isCompleted) })
      .from(tasks)
      .where(and(own, isNotNull(tasks.assigneeId), or(isOpen, isCompleted)))
      .groupBy(tasks.assigneeId)
      .orderBy(desc(count()), tasks.assigneeId)
      .limit(assigneesShown),
    db
      .select({ day: day(tasks.createdAt), tasks: count() })
      .from(tasks)
      .where(and(own, isCreated))
      .groupBy(day(tasks.createdAt)),
    db
      .select({ day: day(tasks.completedAt), tasks: count() })
      .from(tasks)
      .where(and(own, isCompleted))
      .groupBy(day(tasks.completedAt)),
  ]);
  if (!totals || !people) throw new Error("a sum without GROUP BY answered no row");

  const inBuckets = (days: { day: number; tasks: number }[]) => Map.groupBy(days, (row) => bucketStart(row.day * dayMs, interval));
  const created = inBuckets(createdByDay);
  const completed = inBuckets(completedByDay);
  const sumOf = (rows: { tasks: number }[] | undefined) => (rows ?? []).reduce((sum, row) => sum + row.tasks, 0);
  return {
    from,
    to,
    interval,
    tasks: {
      created: totals.created,
      completed: totals.completed,
      open: totals.open,
      overdue: totals.overdue,
      completionRate: totals.created === 0 ? null : percent(totals.createdAndDone, totals.created),
      medianHoursToComplete: median?.taken == null ? null : twoDecimals(median.taken / hourMs),
      byStatus: countsOf<Task["status"]>(taskStatuses, byStatus),
      byPriority: countsOf<Task["priority"]>(priorities, byPriority),
    },
    users: people,
    byAssignee,
    series: bucketsOf(from, to, interval).map((start) => ({
      start,
      created: sumOf(created.get(start)),
      completed: sumOf(completed.get(start)),
    })),
  };
}

const countsOf = <Name extends string>(names: readonly Name[], rows: { name: Name; tasks: number }[]) =>
  Object.fromEntries(names.map((name) => [name, rows.find((row) => row.name === name)?.tasks ?? 0])) as Record<Name, number>;
