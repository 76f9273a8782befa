import { and, type Column, eq, gt, lt, not, or, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { isOneOf } from "../db/is-one-of.ts";
import { type Page, pageFrom, scannedAtOnce } from "../db/page.ts";
import { tasks } from "../db/schema-main.ts";
import { Failure } from "../errors.ts";
import type { Task } from "./task.ts";

export const taskSorts = ["created_at", "-created_at", "updated_at", "-updated_at", "due_at", "-due_at"] as const;
export type TaskSort = (typeof taskSorts)[number];

export interface TaskFilter {
  statuses?: readonly Task["status"][] | undefined;
  priorities?: readonly Task["priority"][] | undefined;
  assigneeId?: string | undefined;
  dueBefore?: number | undefined;
  dueAfter?: number | undefined;
  updatedAfter?: number | undefined;
  /** Part of a title or a description, in any case. */
  q?: string | undefined;
}

/** What a page goes on after: the sorted value of its last task, and its id. */
export interface TaskPosition {
  value: number | null;
  id: string;
}

/** What each order sorts by before the id. An id carries the time of creation, so that order needs nothing else. */
const sorted = { created_at: null, updated_at: tasks.updatedAt, due_at: tasks.dueAt };

/** Tasks of the account. Those without a due date come last, whichever way they are sorted by it. A filtered page looks at 2,000 at most. */
export async function listTasks(
  { db, actor }: Reading,
  { filter, sort, after, limit }: { filter: TaskFilter; sort: TaskSort; after?: TaskPosition | undefined; limit: number },
): Promise<Page<Task, TaskPosition>> {
  const { column, isDescending } = orderOf(sort);
  const direction = sql.raw(isDescending ? "DESC" : "ASC");
  const order = [...(column ? [sql`${column} ${direction} NULLS LAST`] : []), sql`${tasks.id} ${direction}`];
  const range = and(eq(tasks.accountId, actor.accountId), after && isAfter(column, isDescending, after));
  const matches = and(
    isOneOf(tasks.status, filter.statuses),
    isOneOf(tasks.priority, filter.priorities),
    filter.assigneeId === undefined ? undefined : eq(tasks.assigneeId, filter.assigneeId),
    filter.dueBefore === undefined ? undefined : lt(tasks.dueAt, filter.dueBefore),
    filter.dueAfter === undefined ? undefined : gt(tasks.dueAt, filter.dueAfter),
    filter.updatedAfter === undefined ? undefined : gt(tasks.updatedAt, filter.updatedAfter),
    // Not LIKE: D1 takes no pattern of more than 50 bytes.
    filter.q === undefined ? undefined : sql`instr(${tasks.searchText}, ${filter.q.toLowerCase()}) > 0`,
  );
  // What is looked at is found in the order's own index, without the rows.
  const [lastScanned] = matches
    ? await db
        .select({ value: sql<number | null>`${column ?? sql`NULL`}`, id: tasks.id })
        .from(tasks)
        .where(range)
        .orderBy(...order)
        .limit(1)
        .offset(scannedAtOnce - 1)
    : [];
  const found = await db
    .select()
    .from(tasks)
    .where(and(range, matches, lastScanned && not(isAfter(column, isDescending, lastScanned))))
    .orderBy(...order)
    .limit(limit + 1);
  return pageFrom(found, limit, (task) => positionOf(task, sort), lastScanned);
}

/** Where a page that ends with `task` goes on. */
function positionOf(task: Task, sort: TaskSort): TaskPosition {
  const values = { created_at: null, updated_at: task.updatedAt, due_at: task.dueAt };
  return { value: values[orderOf(sort).name], id: task.id };
}

/** One task of the account. Throws `not_found`. */
export async function readTask({ db, actor }: Reading, id: string): Promise<Task> {
  const [task] = await db
    .select()
    .from(tasks)
    .where(and(eq(tasks.accountId, actor.accountId), eq(tasks.id, id)));
  if (!task) throw new Failure("not_found", "There is no such task.");
  return task;
}

function orderOf(sort: TaskSort): { name: keyof typeof sorted; column: Column | null; isDescending: boolean } {
  const isDescending = sort.startsWith("-");
  const name = (isDescending ? sort.slice(1) : sort) as keyof typeof sorted;
  return { name, column: sorted[name], isDescending };
}

function isAfter(column: Column | null, isDescending: boolean, { value, id }: TaskPosition): SQL {
  const beyond = isDescending ? lt : gt;
  const idBeyond = beyond(tasks.id, id);
  if (column === null) return idBeyond;
  if (value === null) return and(sql`${column} IS NULL`, idBeyond) as SQL;
  return or(beyond(column, value), and(eq(column, value), idBeyond), sql`${column} IS NULL`) as SQL;
}
