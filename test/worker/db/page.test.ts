import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { beforeAll, describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import type { Db } from "../../../src/db/client.ts";
import type { Role } from "../../../src/identity/roles.ts";
import { maxCreatedPerDay, reservedForRole } from "../../../src/keys/bounds.ts";
import { dayMs } from "../../../src/lib/time/clock.ts";
import { listTasks, type TaskFilter } from "../../../src/resources/tasks/read-tasks.ts";
import { type TaskPosition, type TaskSort, taskSorts } from "../../../src/resources/tasks/task-order.ts";
import { call, makeTenant, type Tenant } from "../support/client.ts";
import type { RecordedStatement } from "../support/d1.ts";
import { operate } from "../support/operate.ts";
import { makePerson } from "../support/people.ts";
import { queryPlanOf } from "../support/storage-rows.ts";

// A page far down a list costs D1 no more than the first page.

const taskCount = 3000;
const pageSize = 25;
/** The position in a list where page 80 starts. */
const farPosition = 79 * pageSize;
const start = Date.parse("2030-01-01T00:00:00Z");

interface StoredTask {
  id: string;
  updated_at: number;
  due_at: number | null;
  status: string;
}

let tenant: Tenant;
let user: string;
let tasks: StoredTask[];

const insertTasks = (accountId: string, assigneeId: string, rows: readonly StoredTask[]) =>
  env.DB.prepare(
    `INSERT INTO tasks
        (account_id, id, title, description, search_text, status, priority, assignee_id, labels, due_at, revision, created_at, updated_at)
      SELECT ?1, value ->> 'id', 'x', '', 'x', value ->> 'status', 'normal', ?2, '[]', value ->> 'due_at', 'r', 1, value ->> 'updated_at'
      FROM json_each(?3)`,
  )
    .bind(accountId, assigneeId, JSON.stringify(rows))
    .run();

/** Inserts `count` revoked copies of a key. The creation time of the copies is `createdAt`. */
const insertRevokedKeyCopies = (keyId: string, count: number, createdAt: number) =>
  env.DB.prepare(
    `INSERT INTO api_keys
        (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, version, pushed_version, revision, created_at,
          updated_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?2)
    SELECT id || '_' || lower(hex(randomblob(8))), account_id, name, last4, secret_hash, scopes, 'revoked', hourly_limit, allowed_ips, 1, 1,
      revision, ?3, ?3
    FROM api_keys, counted WHERE id = ?1`,
  )
    .bind(keyId, count, createdAt)
    .run();

/** Moves the creation times of an account's keys into the past by `ms` milliseconds. The key `keyId` keeps its creation time. */
const backdateOtherKeys = (accountId: string, keyId: string, ms: number) =>
  env.DB.prepare("UPDATE api_keys SET created_at = created_at - ? WHERE account_id = ? AND id <> ?").bind(ms, accountId, keyId).run();

beforeAll(async () => {
  tenant = await makeTenant();
  user = (await call("POST", "/api/v1/users", { key: tenant.key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
  tasks = Array.from({ length: taskCount }, (_, n) => ({
    id: `tsk_${String(n).padStart(32, "0")}`,
    // Many tasks have equal times. The order by time differs from the order by id.
    updated_at: start + ((n * 7919) % 1500),
    due_at: n % 3 === 0 ? null : start + ((n * 104_729) % 40),
    status: n % 2 === 0 ? "todo" : "done",
  }));
  await insertTasks(tenant.accountId, user, tasks);
});

/** Returns a connection to a database, and a list of all statements of this connection. The list includes the statements in batches. */
function recordAllStatements(d1: D1Database = env.DB) {
  const statements: RecordedStatement[] = [];
  const prepare = (query: string) => {
    const statement = d1.prepare(query);
    return {
      bind(...values: unknown[]) {
        statements.push({ query, values });
        return statement.bind(...values);
      },
    };
  };
  const recording = { prepare, batch: (all: D1PreparedStatement[]) => d1.batch(all) };
  return { db: drizzle(recording as unknown as D1Database) as Db, statements };
}

/** Returns the query plans of the statements, and the number of rows that D1 reads for all statements together. */
async function measureCost(statements: readonly RecordedStatement[], d1: D1Database = env.DB) {
  let rowsRead = 0;
  const plans: string[] = [];
  for (const statement of statements) {
    plans.push(...(await queryPlanOf(statement, d1)));
    const { meta } = await d1
      .prepare(statement.query)
      .bind(...statement.values)
      .all();
    rowsRead += meta.rows_read;
  }
  return { rowsRead, plans };
}

const list = (db: Db, sort: TaskSort, filter: TaskFilter, limit: number, after?: TaskPosition) =>
  listTasks({ db, now: start, actor: operatorOn(tenant.accountId) }, { filter, sort, limit, after });

/** Returns the tasks in the order that the API defines: first by sort value, and then by id. Tasks without a sort value are last. */
function inOrder(sort: TaskSort): StoredTask[] {
  const name = sort.replace("-", "") as "created_at" | "updated_at" | "due_at";
  const sign = sort.startsWith("-") ? -1 : 1;
  const sortValueOf = (task: StoredTask) => (name === "created_at" ? 0 : task[name]);
  return tasks.toSorted((a, b) => {
    const [first, second] = [sortValueOf(a), sortValueOf(b)];
    if (first === null || second === null) return first === second ? sign * (a.id < b.id ? -1 : 1) : first === null ? 1 : -1;
    return sign * (first - second || (a.id < b.id ? -1 : 1));
  });
}

const positionOf = (task: StoredTask, sort: TaskSort): TaskPosition => {
  const name = sort.replace("-", "") as "created_at" | "updated_at" | "due_at";
  return { value: name === "created_at" ? null : task[name], id: task.id };
};

const matches =
  ({ updatedAfter = 0, dueAfter, dueBefore, statuses }: TaskFilter) =>
  (task: StoredTask): boolean =>
    task.updated_at >= updatedAfter &&
    (dueAfter === undefined || (task.due_at !== null && task.due_at >= dueAfter)) &&
    (dueBefore === undefined || (task.due_at !== null && task.due_at < dueBefore)) &&
    (statuses === undefined || statuses.some((status) => status === task.status));

/**
 * Returns the number of tasks that D1 must scan for a page that starts at `position`. The scan ends at the 26th match. The 26th match shows
 * that there is another page.
 */
function scannedFrom(position: number, sort: TaskSort, filter: TaskFilter): number {
  const isMatch = matches(filter);
  // If the filter limits the sort value, D1 reads only a part of the index.
  const hasBound = (sort.endsWith("updated_at") && filter.updatedAfter) || (sort.endsWith("due_at") && filter.dueAfter);
  const candidates = inOrder(sort)
    .slice(position)
    .filter((task) => !hasBound || isMatch(task));
  const counts = candidates.flatMap((task, index) => (isMatch(task) ? [index + 1] : []));
  return counts[pageSize] ?? candidates.length;
}

const filters: [string, TaskFilter][] = [
  ["without a filter", {}],
  ["filtered by update time", { updatedAfter: start + 10 }],
  ["filtered by due date", { dueAfter: start + 1, dueBefore: start + 39 }],
  ["filtered by status", { statuses: ["done", "cancelled"] }],
];

/** The index that D1 uses for each sort value. */
const indexes: Record<string, string> = { created_at: "sqlite_autoindex_tasks_1", updated_at: "tasks_by_update", due_at: "tasks_by_due" };

describe.each(taskSorts)("A list of tasks sorted by %s", (sort) => {
  it.each(filters)("%s reads few rows for page 80, by the index of its order", async (_, filter) => {
    const [first, far] = [recordAllStatements(), recordAllStatements()];
    await list(first.db, sort, filter, pageSize);
    await list(far.db, sort, filter, pageSize, positionOf(inOrder(sort)[farPosition] as StoredTask, sort));
    const [firstCost, farCost] = [await measureCost(first.statements), await measureCost(far.statements)];
    // For a filtered page, D1 first finds the hundredth row. If the list is sorted by due date, D1 also finds the hundredth task without a
    // due date. If a filtered page needs more than 100 rows, D1 scans 2,000 rows.
    const probed = (Object.keys(filter).length > 0 ? 100 : 0) * (sort.endsWith("due_at") ? 2 : 1);
    // D1 also reads the values of the filter and the last row of the previous page.
    const fixedReads = 4;
    const maxReads = (scanned: number) => (probed === 0 || scanned <= 100 ? probed + scanned + fixedReads : probed + 6 * 2000);
    expect(firstCost.rowsRead).toBeLessThanOrEqual(maxReads(scannedFrom(0, sort, filter)));
    expect(farCost.rowsRead).toBeLessThanOrEqual(maxReads(scannedFrom(farPosition + 1, sort, filter)));
    for (const plan of [...firstCost.plans, ...farCost.plans]) expect(plan).not.toContain("TEMP B-TREE");
    for (const plan of farCost.plans.filter((each) => each.includes("tasks"))) expect(plan).toContain(indexes[sort.replace("-", "")]);
  });

  it.each(filters)("%s returns every match on exactly one page, in order", async (_, filter) => {
    const { db } = recordAllStatements();
    const ids: string[] = [];
    for (let after: TaskPosition | undefined; ; ) {
      const { rows, next } = await list(db, sort, filter, 700, after);
      ids.push(...rows.map(({ id }) => id));
      if (next === null) break;
      after = next;
    }
    const expected = inOrder(sort).filter(matches(filter));
    expect(ids).toEqual(expected.map(({ id }) => id));
  });
});

it("The lower bound of a time filter is inclusive, and the upper bound is exclusive", async () => {
  const { key } = await makeTenant();
  const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "x", due_at: "2030-01-01T00:00:00Z" } });
  const countTasks = async (query: string) => (await call("GET", `/api/v1/tasks?${query}`, { key })).body.data.length;
  for (const sort of taskSorts) {
    expect(await countTasks(`sort=${sort}&updated_after=${task.updated_at}`), sort).toBe(1);
    expect(await countTasks(`sort=${sort}&due_after=${task.due_at}`), sort).toBe(1);
    expect(await countTasks(`sort=${sort}&due_before=${task.due_at}`), sort).toBe(0);
  }
});

it("An account can create 1,000 keys in 24 hours, and then admins can create 100 more and owners 200 more", async () => {
  const { accountId, key, keyId } = await makeTenant();
  const createByApi = () => call("POST", "/api/v1/keys", { key, body: { name: "One more" } });
  const createByPage = async (role: Role) => (await (await makePerson(accountId, role)).post("/keys", { name: "By page" })).status;
  await insertRevokedKeyCopies(keyId, maxCreatedPerDay - 1, Date.now());
  const denied = await createByApi();
  expect([denied.status, denied.body.code, denied.body.detail.includes("1,000 keys in 24 hours")]).toEqual([409, "limit_reached", true]);
  expect([await createByPage("developer"), await createByPage("admin")]).toEqual([422, 200]);
  await insertRevokedKeyCopies(keyId, reservedForRole - 1, Date.now());
  expect([await createByPage("admin"), await createByPage("owner")]).toEqual([422, 200]);
  await insertRevokedKeyCopies(keyId, reservedForRole - 1, Date.now());
  expect(await createByPage("owner")).toBe(422);
  expect((await operate("POST", `/accounts/${accountId}/keys`, { name: "By the operator" })).status).toBe(201);
  await backdateOtherKeys(accountId, keyId, dayMs);
  expect((await createByApi()).status).toBe(201);
});
