import { and, gte, isNotNull, isNull, lt, type SQL, sql } from "drizzle-orm";
import { tasks } from "./tables.ts";
import type { Task } from "./task.ts";

// A page of tasks starts after a position in the sort order. The query compares each row with the position: `(updated_at, id) > (?, ?)`.
// SQLite goes directly to the position in the index, even if the position is far into the list. If no single index covers a sort order, the
// sort order is read in parts, one after the other.

export const taskSorts = ["created_at", "-created_at", "updated_at", "-updated_at", "due_at", "-due_at"] as const;
export type TaskSort = (typeof taskSorts)[number];

/** A position in a sort order: the sorted value and the id of a task. A page starts after this position. */
export interface TaskPosition {
  value: number | null;
  id: string;
}

/** The bounds of a sorted column, in milliseconds since the epoch. `from` is inclusive and `to` is exclusive. */
export interface Bounds {
  from?: number | undefined;
  to?: number | undefined;
}

/** One part of a sort order. A single index covers the whole part. */
export interface Part {
  /** The SQL condition for the rows of the part. Rows before the start of the page are excluded. */
  range: SQL | undefined;
  order: SQL[];
  /** The SQL expression of the first sort key. The second sort key is the id. */
  value: SQL<number | null>;
  /** Returns the SQL condition for the rows up to and including a position. */
  upTo: (position: TaskPosition) => SQL;
}

/** The column of each sort order. An id contains the creation time, so a sort by creation time needs only the id. */
const sorted = { created_at: null, updated_at: tasks.updatedAt, due_at: tasks.dueAt } as const;
type SortName = keyof typeof sorted;

export const sortNameOf = (sort: TaskSort): SortName => sort.replace("-", "") as SortName;
const isDescending = (sort: TaskSort): boolean => sort.startsWith("-");

export const positionOf = (task: Task, sort: TaskSort): TaskPosition => {
  const values = { created_at: null, updated_at: task.updatedAt, due_at: task.dueAt };
  return { value: values[sortNameOf(sort)], id: task.id };
};

/**
 * Returns the remaining parts of a sort order after the position `after`. The bounds apply to the sorted column. If the sort is by due date,
 * tasks without a due date come last.
 */
export function partsAfter(sort: TaskSort, bounds: Bounds, after: TaskPosition | undefined): Part[] {
  if (sortNameOf(sort) !== "due_at") return [partOf(sort, sorted[sortNameOf(sort)], bounds, after)];
  const isUndatedNext = after !== undefined && after.value === null;
  const dated = isUndatedNext ? [] : [partOf(sort, tasks.dueAt, bounds, after)];
  const isBounded = bounds.from !== undefined || bounds.to !== undefined;
  const undated = partOf(sort, null, {}, isUndatedNext ? after : undefined);
  // `unlikely` stops SQLite from using the primary key for a page with two bounds. With the primary key, SQLite would also read tasks that have a
  // due date.
  return isBounded ? dated : [...dated, { ...undated, range: and(sql`unlikely(${isNull(tasks.dueAt)})`, undated.range) }];
}

function partOf(sort: TaskSort, column: (typeof sorted)[SortName], { from, to }: Bounds, after: TaskPosition | undefined): Part {
  const key = column ? sql`(${column}, ${tasks.id})` : sql`${tasks.id}`;
  const at = ({ value, id }: TaskPosition) => (column ? sql`(${value}, ${id})` : sql`${id}`);
  const [direction, beyond, within] = isDescending(sort) ? ["DESC", "<", ">="] : ["ASC", ">", "<="];
  const lower = column && (from === undefined ? isNotNull(column) : gte(column, from));
  const upper = column && to !== undefined ? lt(column, to) : null;
  const [start, end] = isDescending(sort) ? [upper, lower] : [lower, upper];
  // The position lies within the bounds, so the position replaces the start bound.
  const begin = after ? sql`${key} ${sql.raw(beyond)} ${at(after)}` : start;
  return {
    range: and(begin ?? undefined, end ?? undefined),
    order: [...(column ? [sql`${column} ${sql.raw(direction)}`] : []), sql`${tasks.id} ${sql.raw(direction)}`],
    value: sql<number | null>`${column ?? sql`NULL`}`,
    upTo: (position) => sql`${key} ${sql.raw(within)} ${at(position)}`,
  };
}
