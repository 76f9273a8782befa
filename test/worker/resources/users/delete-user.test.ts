import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { systemOn } from "../../../../src/accounts/actor.ts";
import { createApp } from "../../../../src/app.ts";
import { allUnchanged, unassign, unassignSome } from "../../../../src/resources/tasks/unassign-tasks.ts";
import { finishDeletions } from "../../../../src/resources/users/delete-user.ts";
import { minuteMs } from "../../../../src/time/clock.ts";
import { commitTo } from "../../../../src/webhooks/outbox.ts";
import { answerOf, call, cron, db, makeTenant, type Tenant } from "../../support/client.ts";
import { invocations } from "../../support/counted.ts";

// A user may have any number of tasks, and D1 does nothing else while it runs a batch.

async function userWithTasks(tenant: Tenant, tasks: number, description = ""): Promise<string> {
  const { body } = await call("POST", "/api/v1/users", {
    key: tenant.key,
    body: { name: "Ada", email: `${crypto.randomUUID()}@example.com` },
  });
  await env.DB.prepare(
    `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, assignee_id, labels, revision, created_at, updated_at)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
    SELECT printf('tsk_%s%08x', lower(hex(randomblob(12))), i), ?2, 'Task ' || i, ?5, 'task ' || i, 'todo', 'normal', ?3, '[]', lower(hex(randomblob(8))), ?4, ?4 FROM n`,
  )
    .bind(tasks, tenant.accountId, body.id, Date.now(), description)
    .run();
  return body.id;
}

const count = async (sql: string, ...values: string[]) =>
  Number(
    Object.values(
      (await env.DB.prepare(`SELECT count(*) FROM ${sql}`)
        .bind(...values)
        .first()) ?? {},
    )[0],
  );
const assigned = (userId: string) => count("tasks WHERE assignee_id = ?", userId);
const ctx = createExecutionContext();

it("Deleting a user with 2,500 tasks unassigns each with one event, and makes that of the user last", async () => {
  const tenant = await makeTenant();
  const id = await userWithTasks(tenant, 2500);
  const others = await userWithTasks(tenant, 3);
  expect((await call("DELETE", `/api/v1/users/${id}`, { key: tenant.key })).status).toBe(204);
  expect([await assigned(id), await assigned(others)]).toEqual([0, 3]);
  const { results } = await env.DB.prepare(
    "SELECT type, json_extract(data, '$.id') AS about, json_extract(data, '$.assignee_id') AS assignee FROM events WHERE account_id = ? AND type NOT IN ('user.created', 'key.created') ORDER BY sequence",
  )
    .bind(tenant.accountId)
    .all<{ type: string; about: string; assignee: string | null }>();
  expect(results.at(-1)).toMatchObject({ type: "user.deleted", about: id });
  const updated = results.slice(0, -1);
  expect(new Set(updated.map(({ type, assignee }) => `${type} ${assignee}`))).toEqual(new Set(["task.updated null"]));
  expect([updated.length, new Set(updated.map(({ about }) => about)).size]).toEqual([2500, 2500]);
  const { results: rows } = await env.DB.prepare("SELECT updated_at, revision FROM tasks WHERE account_id = ? AND assignee_id IS NULL")
    .bind(tenant.accountId)
    .all<{ updated_at: number; revision: string }>();
  expect(new Set(rows.map(({ revision }) => revision)).size).toBe(2500);
}, 60_000);

it("A deletion in more pieces than one request may do responds all the same, and the scheduled job finishes it", async () => {
  const tenant = await makeTenant();
  // Each of them is a piece by itself.
  const id = await userWithTasks(tenant, 25, "x".repeat(500_000));
  expect((await call("DELETE", `/api/v1/users/${id}`, { key: tenant.key })).status).toBe(204);
  expect(await assigned(id)).toBe(5);
  const [request] = invocations("fetch DELETE");
  // As a user with 100,000 tasks has it: the request stays far below a thousand statements.
  expect(request?.counts.statements).toBeLessThan(200);
  expect((await call("GET", `/api/v1/users/${id}`, { key: tenant.key })).status).toBe(404);
  await cron(Date.now() + 2 * minuteMs);
  expect([await assigned(id), await count("users WHERE id = ?", id)]).toEqual([0, 0]);
  expect(await count("events WHERE account_id = ? AND type = 'task.updated'", tenant.accountId)).toBe(25);
}, 60_000);

it("Its statements look tasks up by what was read, and never the other way about", async () => {
  const read = [{ id: "tsk_1", revision: "a" }];
  for (const statement of [unassign("acc_1", read, 1), allUnchanged("acc_1", read)]) {
    const { sql, params } = db.all(statement).getQuery();
    const asked = sql.startsWith("UPDATE") ? sql : `SELECT ${sql}`;
    const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${asked}`)
      .bind(...params)
      .all<{ detail: string }>();
    const plan = results.map(({ detail }) => detail).join("; ");
    expect(plan).toMatch(/SEARCH tasks USING .*\(account_id=\? AND id=\?\)/);
    expect(plan).not.toMatch(/SCAN tasks/);
  }
});

it("A deletion that is broken off is finished by the clock; until then nobody sees the user", async () => {
  const tenant = await makeTenant();
  const id = await userWithTasks(tenant, 1200);
  let batches = 0;
  const failing = new Proxy(env.DB, {
    get: (target, name) => {
      const member = Reflect.get(target, name);
      if (name === "batch")
        return (statements: D1PreparedStatement[]) => {
          if (++batches > 2) throw new Error("D1_ERROR: Network connection lost");
          return target.batch(statements);
        };
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  const request = new Request(`http://localhost/api/v1/users/${id}`, {
    method: "DELETE",
    headers: { Authorization: `Bearer ${tenant.key}` },
  });
  const broken = await answerOf(await createApp({ isLocal: true }).fetch(request, { ...env, DB: failing }, ctx));
  expect(broken.status).toBe(503);
  const left = await assigned(id);
  expect(left).toBeGreaterThan(0);
  expect(left).toBeLessThan(1200);
  const { key } = tenant;
  expect((await call("GET", `/api/v1/users/${id}`, { key })).status).toBe(404);
  expect((await call("PATCH", `/api/v1/users/${id}`, { key, body: { name: "Eve" } })).status).toBe(404);
  expect((await call("DELETE", `/api/v1/users/${id}`, { key })).status).toBe(404);
  expect((await call("GET", "/api/v1/users", { key })).body.data).toEqual([]);
  expect((await call("GET", "/api/v1/analytics", { key })).body.users.total).toBe(0);
  await cron(Date.now() + 2 * minuteMs);
  expect([await assigned(id), await count("users WHERE id = ?", id)]).toEqual([0, 0]);
  expect(await count("events WHERE account_id = ? AND type = 'user.deleted'", tenant.accountId)).toBe(1);
  expect(await count("events WHERE account_id = ? AND type = 'task.updated'", tenant.accountId)).toBe(1200);
}, 60_000);

it("A task that is changed while its user is deleted keeps the change, and has one event of each", async () => {
  const tenant = await makeTenant();
  const id = await userWithTasks(tenant, 300);
  const { results } = await env.DB.prepare("SELECT id FROM tasks WHERE assignee_id = ? LIMIT 20").bind(id).all<{ id: string }>();
  const [deleted, ...changed] = await Promise.all([
    call("DELETE", `/api/v1/users/${id}`, { key: tenant.key }),
    ...results.map((task) => call("PATCH", `/api/v1/tasks/${task.id}`, { key: tenant.key, body: { title: "Meanwhile" } })),
  ]);
  expect(deleted?.status).toBe(204);
  expect(new Set(changed.map((answer) => answer?.status))).toEqual(new Set([200]));
  expect(await count("tasks WHERE account_id = ? AND assignee_id IS NULL AND title = 'Meanwhile'", tenant.accountId)).toBe(20);
  expect(await count("events WHERE account_id = ? AND type = 'task.updated'", tenant.accountId)).toBe(320);
});

it("A user that is being deleted is given no further task", async () => {
  const { key, accountId } = await makeTenant();
  const { body: user } = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
  const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
  await env.DB.prepare("UPDATE users SET deletion_requested_at = ? WHERE id = ?").bind(Date.now(), user.id).run();
  const given = [
    await call("POST", "/api/v1/tasks", { key, body: { title: "Late", assignee_id: user.id } }),
    await call("PATCH", `/api/v1/tasks/${task.id}`, { key, body: { assignee_id: user.id } }),
  ];
  for (const { status, body } of given) expect([status, body.errors?.[0].code]).toEqual([422, "unknown_user"]);
  expect(await count("events WHERE account_id = ? AND type LIKE 'task.%'", accountId)).toBe(1);
});

it("A piece of a deletion makes 2,500 deliveries at most, however many webhooks want its events", async () => {
  const tenant = await makeTenant();
  const id = await userWithTasks(tenant, 300);
  await env.DB.prepare(
    `INSERT INTO webhooks (account_id, id, number, url, description, event_types, state, sealed_secret, revision, created_at, updated_at)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
    SELECT ?1, 'whk_' || lower(hex(randomblob(16))), i, 'https://hooks.acme.dev/' || i, '', '["task.updated"]', 'disabled', '', '0', 1, 1 FROM n`,
  )
    .bind(tenant.accountId)
    .run();
  const writing = { db, now: Date.now(), actor: systemOn(tenant.accountId), commit: commitTo({ db }) };
  expect(await unassignSome(writing, id, 500)).toBe("some unassigned");
  expect([await assigned(id), await count("deliveries WHERE account_id = ?", tenant.accountId)]).toEqual([300 - 125, 2500]);
});

it("The deletions of accounts take turns, so that none waits for all of another's", async () => {
  const [many, few] = [await makeTenant(), await makeTenant()];
  const first = await Promise.all([1, 2, 3].map(() => userWithTasks(many, 1)));
  const last = await userWithTasks(few, 1);
  const mark = (id: string, at: number) => env.DB.prepare("UPDATE users SET deletion_requested_at = ? WHERE id = ?").bind(at, id).run();
  for (const id of first) await mark(id, 1000);
  await mark(last, 2000);
  // A piece that leaves no task, and one that deletes the user.
  await finishDeletions({ db }, Date.now(), 4);
  expect(await count("users WHERE id = ?", last)).toBe(0);
  expect(await count("users WHERE account_id = ?", many.accountId)).toBeGreaterThan(0);
});

it("A large deletion leaves the pieces of a run to those of other accounts, too", async () => {
  const [large, small] = [await makeTenant(), await makeTenant()];
  const [first, last] = [await userWithTasks(large, 5 * 500), await userWithTasks(small, 1)];
  const mark = (id: string, at: number) => env.DB.prepare("UPDATE users SET deletion_requested_at = ? WHERE id = ?").bind(at, id).run();
  await mark(first, 1000);
  await mark(last, 2000);
  await finishDeletions({ db }, Date.now(), 6);
  expect([await count("users WHERE id = ?", last), await count("users WHERE id = ?", first)]).toEqual([0, 1]);
});

it("An account has a hundred users that are still being deleted at most; further ones stay as they are", async () => {
  const tenant = await makeTenant();
  const user = await userWithTasks(tenant, 1);
  await env.DB.prepare(
    `INSERT INTO users (id, account_id, name, email, email_key, search_text, role, status, deletion_requested_at, revision, created_at, updated_at)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
    SELECT 'usr_' || lower(hex(randomblob(16))), ?1, 'Leaving', i || '@example.com', i || '@example.com', '', 'member', 'active', ?2, '0', 1, 1 FROM n`,
  )
    .bind(tenant.accountId, Date.now())
    .run();
  const remove = () => call("DELETE", `/api/v1/users/${user}`, { key: tenant.key });
  const refused = await remove();
  expect([refused.status, refused.body.code]).toEqual([409, "limit_reached"]);
  expect((await call("GET", "/api/v1/users", { key: tenant.key })).body.data).toHaveLength(1);
  await finishDeletions({ db }, Date.now() + 2 * 60_000, 200);
  expect((await remove()).status).toBe(204);
});

it("One deletion that cannot be finished holds up no other", async () => {
  const tenants = [await makeTenant(), await makeTenant()];
  const ids = await Promise.all(tenants.map((tenant) => userWithTasks(tenant, 5)));
  for (const [index, id] of ids.entries())
    await env.DB.prepare("UPDATE users SET deletion_requested_at = ? WHERE id = ?")
      .bind(index + 1, id)
      .run();
  let batches = 0;
  const failing = new Proxy(db, {
    get: (target, name) =>
      name === "batch"
        ? async (...given: Parameters<typeof db.batch>) => {
            // The oldest comes first.
            if (batches++ === 0) throw new Error("D1_ERROR: out of order");
            return target.batch(...given);
          }
        : Reflect.get(target, name),
  });
  await expect(finishDeletions({ db: failing }, Date.now(), 10)).rejects.toThrow("could not be finished");
  expect([await count("users WHERE id = ?", ids[0] ?? ""), await count("users WHERE id = ?", ids[1] ?? "")]).toEqual([1, 0]);
});
