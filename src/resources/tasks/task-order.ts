import { and, gte, isNotNull, isNull, lt, type SQL, sql } from "drizzle-orm";
import { tasks } from "./tables.ts";
import type { Task } from "./task.ts";

// A page goes on by a row value, `(updated_at, id) > (?, ?)`: SQLite then begins at that place of the index, however far the page is. An
// order that no index has as a whole is read in parts, one after the other.

export const taskSorts = ["created_at", "-created_at", "updated_at", "-updated_at", "due_at", "-due_at"] as const;
export type TaskSort = (typeof taskSorts)[number];

/** What a page goes on after: the sorted value of its last task, and its id. */
export interface TaskPosition {
  value: number | null;
  id: string;
}

/** The bounds of a column in milliseconds: `from` inclusive, `to` exclusive. */
export interface Bounds {
  from?: number | undefined;
  to?: number | undefined;
}

/** A part of an order that an index has row after row. */
export interface Part {
  /** The rows of the part, from where the page begins. */
  range: SQL | undefined;
  order: SQL[];
  /** What is sorted by before the id, for a SELECT. */
  value: SQL<number | null>;
  /** The rows up to a position, that one included. */
  upTo: (position: TaskPosition) => SQL;
}

/** An id carries the time of creation, so that order needs nothing else. */
const sorted = { created_at: null, updated_at: tasks.updatedAt, due_at: tasks.dueAt } as const;
type SortName = keyof typeof sorted;

export const sortNameOf = (sort: TaskSort): SortName => sort.replace("-", "") as SortName;
const isDescending = (sort: TaskSort): boolean => sort.startsWith("-");

/** Returns the place of a task in an order. */
export const positionOf = (task: Task, sort: TaskSort): TaskPosition => {
  const values = { created_at: null, updated_at: task.updatedAt, due_at: task.dueAt };
  return { value: values[sortNameOf(sort)], id: task.id };
};

/** Returns the parts of an order from after a position, first to last, within the bounds of its column. Tasks without a due date come last. */
export function partsAfter(sort: TaskSort, bounds: Bounds, after: TaskPosition | undefined): Part[] {
  if (sortNameOf(sort) !== "due_at") return [partOf(sort, sorted[sortNameOf(sort)], bounds, after)];
  const isUndatedNext = after !== undefined && after.value === null;
  const dated = isUndatedNext ? [] : [partOf(sort, tasks.dueAt, bounds, after)];
  const isBounded = bounds.from !== undefined || bounds.to !== undefined;
  const undated = partOf(sort, null, {}, isUndatedNext ? after : undefined);
  // Unlikely: else SQLite takes the primary key for a page with two bounds, and reads those with a due date, too.
  return isBounded ? dated : [...dated, { ...undated, range: and(sql`unlikely(${isNull(tasks.dueAt)})`, undated.range) }];
}

function partOf(sort: TaskSort, column: (typeof sorted)[SortName], { from, to }: Bounds, after: TaskPosition | undefined): Part {
  const key = column ? sql`(${column}, ${tasks.id})` : sql`${tasks.id}`;
  const at = ({ value, id }: TaskPosition) => (column ? sql`(${value}, ${id})` : sql`${id}`);
  const [direction, beyond, within] = isDescending(sort) ? ["DESC", "<", ">="] : ["ASC", ">", "<="];
  const lower = column && (from === undefined ? isNotNull(column) : gte(column, from));
  const upper = column && to !== undefined ? lt(column, to) : null;
  const [start, end] = isDescending(sort) ? [upper, lower] : [lower, upper];
  // Where the page goes on lies within the bounds: of the two, SQLite is given the nearer.
  const begin = after ? sql`${key} ${sql.raw(beyond)} ${at(after)}` : start;
  return {
    range: and(begin ?? undefined, end ?? undefined),
    order: [...(column ? [sql`${column} ${sql.raw(direction)}`] : []), sql`${tasks.id} ${sql.raw(direction)}`],
    value: sql<number | null>`${column ?? sql`NULL`}`,
    upTo: (position) => sql`${key} ${sql.raw(within)} ${at(position)}`,
  };
}
