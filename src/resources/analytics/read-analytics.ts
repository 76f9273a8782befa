import { and, count, desc, eq, gte, isNotNull, isNull, lt, or, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { raw } from "../../db/client.ts";
import { dayMs, hourMs } from "../../lib/time/clock.ts";
import { percent, twoDecimals } from "../../usage/percent.ts";
import { tasks } from "../tasks/tables.ts";
import { priorities, type Task, taskStatuses } from "../tasks/task.ts";
import { users } from "../users/tables.ts";
import { bucketStart, bucketsOf, type Interval } from "./buckets.ts";

/** The maximum number of assignees in the response. Assignees with more tasks come first. */
const assigneesShown = 100;

const isOpen = sql`${tasks.status} IN ('todo', 'in_progress')`;

/**
 * Returns figures about the account's tasks and users. The time span includes `from` and excludes `to`. The numbers of created and completed
 * tasks, and the time series, cover this span. All other counts describe the current state. The completion rate is a share of the tasks that were
 * created in the span: the tasks that are done now. The median number of hours to completion is calculated from the tasks that were completed in
 * the span.
 */
export async function readAnalytics(
  { db, actor, now }: ReadContext,
  { from, to, interval }: { from: number; to: number; interval: Interval },
) {
  const own = eq(tasks.accountId, actor.accountId);
  const isCreated = and(gte(tasks.createdAt, from), lt(tasks.createdAt, to)) as SQL;
  const isCompleted = and(gte(tasks.completedAt, from), lt(tasks.completedAt, to)) as SQL;
  const sumWhere = (condition: SQL) => sql<number>`coalesce(sum(${condition}), 0)`;
  const day = (column: typeof tasks.createdAt | typeof tasks.completedAt) => sql<number>`${column} / ${sql.raw(String(dayMs))}`;
  const completed = sql`SELECT completed_at - created_at AS taken FROM tasks WHERE ${own} AND ${isCompleted}`;
  const completedCount = sql`(SELECT count(*) FROM tasks WHERE ${own} AND ${isCompleted})`;

  // D1 runs nothing else during this batch, and an account may have 100,000 tasks. To keep the batch fast, each query reads an index that
  // contains all columns of the query. Where possible, a query reads rows in index order.
  const [groups, [median], [people], byAssignee, createdByDay, completedByDay] = await db.batch([
    db
      .select({
        status: tasks.status,
        priority: tasks.priority,
        tasks: count(),
        created: sumWhere(isCreated),
        completed: sumWhere(isCompleted),
        overdue: sumWhere(sql`${isOpen} AND ${tasks.dueAt} < ${now}`),
      })
      .from(tasks)
      .where(own)
      .groupBy(tasks.status, tasks.priority),
    raw<{ taken: number | null }>(
      db,
      // The median is the middle value, or the average of the two middle values.
      sql`SELECT avg(taken) AS taken FROM (${completed} ORDER BY taken LIMIT 2 - ${completedCount} % 2 OFFSET max(0, ${completedCount} - 1) / 2)`,
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
  if (!people) throw new Error("a sum without GROUP BY returned no row");

  const inBuckets = (days: { day: number; tasks: number }[]) => Map.groupBy(days, (row) => bucketStart(row.day * dayMs, interval));
  const createdIn = inBuckets(createdByDay);
  const completedIn = inBuckets(completedByDay);
  const tasksOf = (days: { tasks: number }[] = []) => days.reduce((sum, row) => sum + row.tasks, 0);
  type Group = (typeof groups)[number];
  const sumOf = (figure: "tasks" | "created" | "completed" | "overdue", isIn: (group: Group) => boolean = () => true) =>
    groups.filter(isIn).reduce((sum, group) => sum + group[figure], 0);
  const isStatus =
    (...statuses: Task["status"][]) =>
    ({ status }: Group) =>
      statuses.includes(status);
  const created = sumOf("created");
  return {
    from,
    to,
    interval,
    tasks: {
      created,
      completed: sumOf("completed"),
      open: sumOf("tasks", isStatus("todo", "in_progress")),
      overdue: sumOf("overdue"),
      completionRate: created === 0 ? null : percent(sumOf("created", isStatus("done")), created),
      medianHoursToComplete: median?.taken == null ? null : twoDecimals(median.taken / hourMs),
      byStatus: countsOf(taskStatuses, (status) => sumOf("tasks", isStatus(status))),
      byPriority: countsOf(priorities, (priority) => sumOf("tasks", (group) => group.priority === priority)),
    },
    users: people,
    byAssignee,
    series: bucketsOf(from, to, interval).map((start) => ({
      start,
      created: tasksOf(createdIn.get(start)),
      completed: tasksOf(completedIn.get(start)),
    })),
  };
}

const countsOf = <Name extends string>(names: readonly Name[], tasksOf: (name: Name) => number) =>
  Object.fromEntries(names.map((name) => [name, tasksOf(name)])) as Record<Name, number>;
