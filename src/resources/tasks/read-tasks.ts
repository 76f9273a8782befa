import { and, eq, gte, lt, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { ReadContext } from "../../accounts/actor.ts";
import type { Db } from "../../db/client.ts";
import { isOneOf } from "../../db/is-one-of.ts";
import { type Page, pageFrom, scannedAtOnce } from "../../db/page.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { folded } from "../../lib/inputs/fold.ts";
import { manifest } from "./manifest.ts";
import { tasks } from "./tables.ts";
import type { Task } from "./task.ts";
import { type Bounds, type Part, partsAfter, positionOf, sortNameOf, type TaskPosition, type TaskSort } from "./task-order.ts";

export interface TaskFilter {
  statuses?: readonly Task["status"][] | undefined;
  priorities?: readonly Task["priority"][] | undefined;
  assigneeId?: string | undefined;
  dueBefore?: number | undefined;
  dueAfter?: number | undefined;
  updatedAfter?: number | undefined;
  /** Text that the title or the description must contain. Upper case and lower case are treated as equal. */
  q?: string | undefined;
}

/**
 * Returns one page of the account's tasks. If the sort is by due date, in either direction, tasks without a due date come last. For a filtered
 * page, at most 2,000 tasks and 4 MB of their text are scanned.
 */
export async function listTasks(
  { db, actor }: ReadContext,
  { filter, sort, after, limit }: { filter: TaskFilter; sort: TaskSort; after?: TaskPosition | undefined; limit: number },
): Promise<Page<Task, TaskPosition>> {
  const name = sortNameOf(sort);
  const bounds = { created_at: {}, updated_at: { from: filter.updatedAfter }, due_at: { from: filter.dueAfter, to: filter.dueBefore } };
  const matches = and(
    isOneOf(tried(tasks.status), filter.statuses),
    isOneOf(tried(tasks.priority), filter.priorities),
    filter.assigneeId === undefined ? undefined : eq(tried(tasks.assigneeId), filter.assigneeId),
    name === "updated_at" ? undefined : isWithin(tasks.updatedAt, bounds.updated_at),
    name === "due_at" ? undefined : isWithin(tasks.dueAt, bounds.due_at),
    // The query does not use `LIKE`, because D1 limits `LIKE` patterns to 50 bytes.
    filter.q === undefined ? undefined : sql`instr(${tasks.searchText}, ${folded(filter.q)}) > 0`,
  );
  const parts = partsAfter(sort, bounds[name], after).map((part) => ({
    ...part,
    range: and(eq(tasks.accountId, actor.accountId), part.range),
  }));
  const rows: Task[] = [];
  let lastScanned: TaskPosition | null = null;
  let unscanned = scannedAtOnce;
  for (const part of parts) {
    const wanted = limit + 1 - rows.length;
    const find = (last: TaskPosition | null) => readRows(db, part, and(part.range, matches, last ? part.upTo(last) : undefined), wanted);
    lastScanned = matches ? await placeOf(db, part, Math.min(firstLook(limit), unscanned)) : null;
    let found = await find(lastScanned);
    if (lastScanned && found.length < wanted) {
      lastScanned = await lastOf(db, part, unscanned);
      found = await find(lastScanned);
    }
    rows.push(...found);
    if (rows.length > limit || lastScanned || part === parts.at(-1)) break;
    unscanned -= matches ? await db.$count(tasks, part.range) : 0;
  }
  return pageFrom(rows, limit, (task) => positionOf(task, sort), lastScanned);
}

/**
 * Returns the number of rows in the first scan for a filtered page. The first scan does not limit the text size. If the filter matches many rows,
 * the first scan is enough.
 */
const firstLook = (limit: number): number => Math.max(100, 2 * limit);

/**
 * Returns the position of row number `place` in a part of a sort order. The first row has number 1. If the part has fewer rows, returns null. The
 * query reads only the index.
 */
async function placeOf(db: Db, { range, order, value }: Part, place: number): Promise<TaskPosition | null> {
  const [found = null] = await db
    .select({ value, id: tasks.id })
    .from(tasks)
    .where(range)
    .orderBy(...order)
    .limit(1)
    .offset(place - 1);
  return found;
}

/**
 * The maximum size of the text that is scanned for one filtered page, in bytes. A search in 2,000 descriptions of 10,000 characters each would
 * delay all other requests.
 */
const bytesAtOnce = manifest.limits.scannedMb * 1_000_000;

/**
 * Returns the position of the last row to scan for a filtered page. At most the first `count` rows of a part are scanned. The scan ends at the
 * row where the total text size reaches `bytesAtOnce`. If the whole part is scanned, returns null. SQLite reads the length of a text from the row
 * header, without reading the text itself.
 */
async function lastOf(db: Db, { range, order, value }: Part, count: number): Promise<TaskPosition | null> {
  const first = db
    .select({
      value: value.as("value"),
      id: tasks.id,
      bytes: sql<number>`octet_length(description) + octet_length(search_text)`.as("bytes"),
    })
    .from(tasks)
    .where(range)
    .orderBy(...order)
    .limit(count)
    .as("first");
  const counted = db
    .select({
      value: first.value,
      id: first.id,
      place: sql<number>`row_number() OVER (ROWS UNBOUNDED PRECEDING)`.as("place"),
      before: sql<number>`sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes`.as("before"),
      all: sql<number>`count(*) OVER ()`.as("all_rows"),
    })
    .from(first)
    .as("counted");
  // In a query with `max()`, SQLite takes the other columns from the row that has the maximum.
  const place = sql<number | null>`max(${counted.place})`;
  const [last] = await db
    .select({ value: counted.value, id: counted.id, all: counted.all, place })
    .from(counted)
    .where(lt(counted.before, bytesAtOnce));
  if (!last || last.place === null) return null;
  return last.place === last.all && last.all < count ? null : { value: last.value, id: last.id };
}

const readRows = (db: Db, { order }: Part, where: SQL | undefined, atMost: number): Promise<Task[]> =>
  db
    .select()
    .from(tasks)
    .where(where)
    .orderBy(...order)
    .limit(atMost);

/**
 * Returns an expression for a column in a filter. The `+` stops SQLite from using an index of the column, so SQLite tests the filter row by row.
 * With an index of the filtered column, SQLite would read all matching rows and then sort them.
 */
const tried = (column: SQLiteColumn): SQL => sql`+${column}`;

const isWithin = (column: SQLiteColumn, { from, to }: Bounds): SQL | undefined =>
  and(from === undefined ? undefined : gte(tried(column), from), to === undefined ? undefined : lt(tried(column), to));

/** Returns one task of the account. Throws `not_found`. */
export async function readTask({ db, actor }: ReadContext, id: string): Promise<Task> {
  const [task] = await db
    .select()
    .from(tasks)
    .where(and(eq(tasks.accountId, actor.accountId), eq(tasks.id, id)));
  if (!task) throw new Failure("not_found", "There is no such task.");
  return task;
}
