import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { beforeAll, describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import type { Db } from "../../../src/db/client.ts";
import type { Role } from "../../../src/identity/roles.ts";
import { maxMade, requireRoom, reservedForRole } from "../../../src/keys/bounds.ts";
import type { KeyStatus } from "../../../src/keys/key.ts";
import { listKeys, readKey } from "../../../src/keys/read-keys.ts";
import { listTasks, type TaskFilter } from "../../../src/resources/tasks/read-tasks.ts";
import { type TaskPosition, type TaskSort, taskSorts } from "../../../src/resources/tasks/task-order.ts";
import { dayMs } from "../../../src/time/clock.ts";
import { activity, call, db, makeTenant, type Tenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { makePerson } from "../support/people.ts";

// A page far down a list costs D1 no more than the first.

const taskCount = 6000;
const start = Date.parse("2030-01-01T00:00:00Z");

interface Made {
  id: string;
  updated_at: number;
  due_at: number | null;
  status: string;
}

let tenant: Tenant;
let user: string;
let made: Made[];

beforeAll(async () => {
  tenant = await makeTenant();
  user = (await call("POST", "/api/v1/users", { key: tenant.key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
  made = Array.from({ length: taskCount }, (_, n) => ({
    id: `tsk_${String(n).padStart(32, "0")}`,
    // Many share a time, and the order is not that of the ids.
    updated_at: start + ((n * 7919) % 1500),
    due_at: n % 3 === 0 ? null : start + ((n * 104_729) % 40),
    status: n % 2 === 0 ? "todo" : "done",
  }));
  await env.DB.prepare(
    `INSERT INTO tasks (account_id, id, title, description, search_text, status, priority, assignee_id, labels, due_at, revision, created_at, updated_at)
    SELECT ?1, value ->> 'id', 'x', '', 'x', value ->> 'status', 'normal', ?2, '[]', value ->> 'due_at', 'r', 1, value ->> 'updated_at' FROM json_each(?3)`,
  )
    .bind(tenant.accountId, user, JSON.stringify(made))
    .run();
});

/** A database that notes the statements that it is given, those of batches too. */
function noting(d1: D1Database = env.DB) {
  const statements: { sql: string; params: unknown[] }[] = [];
  const prepare = (query: string) => {
    const statement = d1.prepare(query);
    return {
      bind(...params: unknown[]) {
        statements.push({ sql: query, params });
        return statement.bind(...params);
      },
    };
  };
  const noting = { prepare, batch: (all: D1PreparedStatement[]) => d1.batch(all) };
  return { db: drizzle(noting as unknown as D1Database) as Db, statements };
}

/** What D1 does for the statements: how it finds the rows, and how many it reads. */
async function costOf(statements: { sql: string; params: unknown[] }[], d1: D1Database = env.DB) {
  let rowsRead = 0;
  const plans: string[] = [];
  for (const { sql, params } of statements) {
    const { results } = await d1
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .bind(...params)
      .all<{ detail: string }>();
    plans.push(...results.map(({ detail }) => detail));
    const { meta } = await d1
      .prepare(sql)
      .bind(...params)
      .all();
    rowsRead += meta.rows_read;
  }
  return { rowsRead, plans };
}

const list = (db: Db, sort: TaskSort, filter: TaskFilter, limit: number, after?: TaskPosition) =>
  listTasks({ db, now: start, actor: operatorOn(tenant.accountId) }, { filter, sort, limit, after });

/** The order by its definition: by the value, then by the id; without a value last. */
function inOrder(sort: TaskSort): Made[] {
  const name = sort.replace("-", "") as "created_at" | "updated_at" | "due_at";
  const sign = sort.startsWith("-") ? -1 : 1;
  const valueIn = (task: Made) => (name === "created_at" ? 0 : task[name]);
  return made.toSorted((a, b) => {
    const [one, other] = [valueIn(a), valueIn(b)];
    if (one === null || other === null) return one === other ? sign * (a.id < b.id ? -1 : 1) : one === null ? 1 : -1;
    return sign * (one - other || (a.id < b.id ? -1 : 1));
  });
}

const positionOf = (task: Made, sort: TaskSort): TaskPosition => {
  const name = sort.replace("-", "") as "created_at" | "updated_at" | "due_at";
  return { value: name === "created_at" ? null : task[name], id: task.id };
};

const matches =
  ({ updatedAfter = 0, dueAfter, dueBefore, statuses }: TaskFilter) =>
  (task: Made): boolean =>
    task.updated_at >= updatedAfter &&
    (dueAfter === undefined || (task.due_at !== null && task.due_at >= dueAfter)) &&
    (dueBefore === undefined || (task.due_at !== null && task.due_at < dueBefore)) &&
    (statuses === undefined || statuses.some((status) => status === task.status));

/** How many tasks of an order from a place on a page of 25 has to try, which ends where the 26th match is. */
function triedFrom(place: number, sort: TaskSort, filter: TaskFilter): number {
  const isMatch = matches(filter);
  // The bounds of what is sorted by are where the index is read.
  const isBound = (sort.endsWith("updated_at") && filter.updatedAfter) || (sort.endsWith("due_at") && filter.dueAfter);
  const order = inOrder(sort)
    .slice(place)
    .filter((task) => !isBound || isMatch(task));
  const found = order.flatMap((task, index) => (isMatch(task) ? [index + 1] : []));
  return found[25] ?? order.length;
}

const filters: [string, TaskFilter][] = [
  ["without a filter", {}],
  ["changed since a time", { updatedAfter: start + 10 }],
  ["due within a span", { dueAfter: start + 1, dueBefore: start + 39 }],
  ["of some statuses", { statuses: ["done", "cancelled"] }],
  ["of a user", { assigneeId: "set below" }],
];

describe.each(taskSorts)("Tasks by %s", (sort) => {
  it.each(filters)(
    "%s: page 200 reads the rows that it tries and few more, as the first does, by the index of the order",
    async (_, given) => {
      const filter = given.assigneeId ? { assigneeId: user } : given;
      // Where the 200th page of 25 begins.
      const far = positionOf(inOrder(sort)[199 * 25] as Made, sort);
      const [first, later] = [noting(), noting()];
      await list(first.db, sort, filter, 25);
      await list(later.db, sort, filter, 25, far);
      const [near, distant] = [await costOf(first.statements), await costOf(later.statements)];
      // A filtered page first looks where the hundredth row is, of those with and of those without a due date. Where it needs more, it weighs 2,000.
      const looked = (Object.keys(filter).length > 0 ? 100 : 0) * (sort.endsWith("due_at") ? 2 : 1);
      // The values of the filter, and the row that the page before ended with.
      const few = 4;
      const most = (tried: number) => (looked === 0 || tried <= 100 ? looked + tried + few : looked + 6 * 2000);
      expect(near.rowsRead).toBeLessThanOrEqual(most(triedFrom(0, sort, filter)));
      expect(distant.rowsRead).toBeLessThanOrEqual(most(triedFrom(199 * 25 + 1, sort, filter)));
      for (const plan of [...near.plans, ...distant.plans]) expect(plan).not.toContain("TEMP B-TREE");
      const index = { created_at: "sqlite_autoindex_tasks_1", updated_at: "tasks_by_update", due_at: "tasks_by_due" }[
        sort.replace("-", "")
      ];
      for (const plan of distant.plans.filter((each) => each.includes("tasks"))) expect(plan).toContain(index);
    },
  );

  it.each(filters)("%s: every match is on one page, in the order", async (_, given) => {
    const filter = given.assigneeId ? { assigneeId: user } : given;
    const { db } = noting();
    const seen: string[] = [];
    for (let after: TaskPosition | undefined; ; ) {
      const { rows, next } = await list(db, sort, filter, 700, after);
      seen.push(...rows.map(({ id }) => id));
      if (next === null) break;
      after = next;
    }
    const expected = inOrder(sort).filter(matches(filter));
    expect(seen).toEqual(expected.map(({ id }) => id));
  });
});

it("A time that tasks are asked for from on is itself within what is asked for", async () => {
  const { key } = await makeTenant();
  const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "x", due_at: "2030-01-01T00:00:00Z" } });
  const found = async (query: string) => (await call("GET", `/api/v1/tasks?${query}`, { key })).body.data.length;
  for (const sort of taskSorts) {
    expect(await found(`sort=${sort}&updated_after=${task.updated_at}`), sort).toBe(1);
    expect(await found(`sort=${sort}&due_after=${task.due_at}`), sort).toBe(1);
    expect(await found(`sort=${sort}&due_before=${task.due_at}`), sort).toBe(0);
  }
});

it.each<[name: string, statuses: KeyStatus[] | undefined, index: string]>([
  ["of any status", undefined, "api_keys_by_account (account_id=? AND (created_at,id)<(?,?))"],
  ["of one status", ["disabled"], "api_keys_by_state (account_id=? AND state=? AND (created_at,id)<(?,?))"],
  ["of several statuses", ["expired", "disabled", "revoked"], "api_keys_by_state (account_id=? AND state=? AND (created_at,id)<(?,?))"],
])("A page of keys %s goes on in an index that has them in their order", async (_, statuses, index) => {
  const { db, statements } = noting();
  const reading = { db, activity, now: start, actor: operatorOn(tenant.accountId) };
  await listKeys(reading, { statuses, after: { createdAt: start, id: "key_x" }, limit: 25 });
  const { plans } = await costOf(statements.filter(({ sql }) => sql.includes("order by")));
  expect(plans).toHaveLength(statuses?.length ?? 1);
  for (const plan of plans) expect(plan).toContain(index);
});

it("Live keys, a key and the maker of a key are found without the revoked and the expired keys of the account", async () => {
  const { accountId, keyId } = await makeTenant();
  const copies = `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at, version, pushed_version,
    revision, created_by_type, created_by_id, created_at, updated_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 2000)
    SELECT id || n, account_id, name, last4, secret_hash, scopes, iif(n % 2, 'revoked', 'active'), hourly_limit, allowed_ips, 1, 1, 1,
      revision, created_by_type, created_by_id, created_at, updated_at FROM api_keys, counted WHERE id = ?`;
  await env.DB.prepare(copies).bind(keyId).run();
  await env.DB.prepare("UPDATE api_keys SET created_by_type = 'key', created_by_id = id WHERE id = ?").bind(keyId).run();
  const { db, statements } = noting();
  const reading = { db, activity, now: Date.now(), actor: operatorOn(accountId) };
  await requireRoom(reading);
  await listKeys(reading, { statuses: ["active"], limit: 25 });
  await readKey(reading, keyId);
  const ofKeys = statements.filter(({ sql }) => sql.includes("api_keys"));
  expect(ofKeys.length).toBeGreaterThanOrEqual(4);
  expect((await costOf(ofKeys)).rowsRead).toBeLessThan(30);
});

it("The last uses of keys are read for the keys of the page alone, and an account makes 1,000 keys in 24 hours, admins 100 and owners 200 more", async () => {
  const { accountId, key, keyId } = await makeTenant();
  const copy = (made: number, many: number) =>
    env.DB.prepare(
      `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, version, pushed_version, revision, created_at, updated_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?2)
      SELECT id || '_' || lower(hex(randomblob(8))), account_id, name, last4, secret_hash, scopes, 'revoked', hourly_limit, allowed_ips, 1, 1, revision, ?3, ?3 FROM api_keys, counted WHERE id = ?1`,
    )
      .bind(keyId, many, made)
      .run();
  await copy(Date.now(), maxMade - 1);
  const create = () => call("POST", "/api/v1/keys", { key, body: { name: "One more" } });
  const refused = await create();
  expect([refused.status, refused.body.code, refused.body.detail.includes("1,000 keys in 24 hours")]).toEqual([409, "limit_reached", true]);
  const byRole = async (role: Role) => (await (await makePerson(accountId, role)).post("/keys", { name: "By page" })).status;
  expect([await byRole("developer"), await byRole("admin")]).toEqual([422, 200]);
  await copy(Date.now(), reservedForRole - 1);
  expect([await byRole("admin"), await byRole("owner")]).toEqual([422, 200]);
  await copy(Date.now(), reservedForRole - 1);
  expect(await byRole("owner")).toBe(422);
  expect((await operate("POST", `/accounts/${accountId}/keys`, { name: "By the operator" })).status).toBe(201);
  await env.DB.prepare("UPDATE api_keys SET created_at = created_at - ? WHERE account_id = ? AND id <> ?")
    .bind(dayMs, accountId, keyId)
    .run();
  expect((await create()).status).toBe(201);
  const uses = "INSERT INTO key_uses (account_id, key_id, entry_id, path) SELECT ?, value, 'req_1', '/' FROM json_each(?)";
  const { results } = await env.DB.prepare("SELECT id FROM api_keys WHERE account_id = ?").bind(accountId).all<{ id: string }>();
  await activity.$client
    .prepare(uses)
    .bind(accountId, JSON.stringify(results.map(({ id }) => id)))
    .run();
  const { db: log, statements } = noting(activity.$client);
  await listKeys({ db, activity: log, now: Date.now(), actor: operatorOn(accountId) }, { limit: 10 });
  expect(statements).toHaveLength(1);
  expect((await costOf(statements, activity.$client)).rowsRead).toBeLessThan(50);
});
