import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { systemOn } from "../../../../src/accounts/actor.ts";
import { minuteMs } from "../../../../src/lib/time/clock.ts";
import { commitTo } from "../../../../src/outbox/outbox.ts";
import { onDelete } from "../../../../src/resources/tasks/unassign-tasks.ts";
import { finishDeletions } from "../../../../src/resources/users/delete-user.ts";
import { call, callWith, cron, db, makeTenant, type Tenant } from "../../support/client.ts";
import { invocations } from "../../support/counted.ts";
import { d1With } from "../../support/d1.ts";
import {
  countAssignedTasks,
  hasUserRow,
  insertTasks,
  insertUsersInDeletion,
  readUnassignedTasks,
  requestDeletion,
} from "../../support/resource-rows.ts";
import { countRows } from "../../support/storage-rows.ts";
import { countEvents, readEventRows } from "../../support/webhook-rows.ts";

// A user may have any number of tasks. D1 runs only one batch at a time. The deletion of a user therefore unassigns the user's tasks in
// small pieces.

/** Creates a user with `count` tasks. Returns the id of the user. */
async function makeUserWithTasks({ key, accountId }: Tenant, count: number, description = ""): Promise<string> {
  const user = { name: "Ada", email: `${crypto.randomUUID()}@example.com` };
  const { id } = (await call("POST", "/api/v1/users", { key, body: user })).body;
  await insertTasks(accountId, { count, description, assigneeId: id });
  return id;
}

/** Inserts twenty disabled webhooks that are subscribed to task updates. */
const insertDisabledWebhooks = (accountId: string) =>
  env.DB.prepare(
    `INSERT INTO webhooks (account_id, id, number, url, target, description, event_types, state, encrypted_secret, revision, created_at, updated_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 20)
      SELECT ?1, 'whk_' || lower(hex(randomblob(16))), n, 'https://hooks.acme.dev/' || n, 'https://hooks.acme.dev/' || n, '', '["task.updated"]', 'disabled', 'b', '0', 1, 1
      FROM counted`,
  )
    .bind(accountId)
    .run();

/**
 * Reads the events about users and tasks of an account, oldest first. Returns the type of each event, and the `id` and `assignee_id` from
 * its data.
 */
async function readResourceEvents(accountId: string) {
  const rows = (await readEventRows(accountId)).toSorted((a, b) => Number(a.sequence) - Number(b.sequence));
  return rows
    .filter(({ type }) => type !== "user.created" && type !== "key.created")
    .map(({ type, data }) => {
      const { id, assignee_id } = JSON.parse(String(data)) as { id: string; assignee_id?: string | null };
      return { type, id, assigneeId: assignee_id };
    });
}

it("The deletion of a user with 2,500 tasks unassigns each task with one event, before the event of the user", async () => {
  const tenant = await makeTenant();
  const userId = await makeUserWithTasks(tenant, 2500);
  const otherUserId = await makeUserWithTasks(tenant, 3);
  expect((await call("DELETE", `/api/v1/users/${userId}`, { key: tenant.key })).status).toBe(204);
  expect([await countAssignedTasks(userId), await countAssignedTasks(otherUserId)]).toEqual([0, 3]);
  const events = await readResourceEvents(tenant.accountId);
  expect(events.at(-1)).toMatchObject({ type: "user.deleted", id: userId });
  const updates = events.slice(0, -1);
  expect(new Set(updates.map(({ type, assigneeId }) => `${type} ${assigneeId}`))).toEqual(new Set(["task.updated null"]));
  expect([updates.length, new Set(updates.map(({ id }) => id)).size]).toEqual([2500, 2500]);
  const tasks = await readUnassignedTasks(tenant.accountId);
  expect(new Set(tasks.map(({ revision }) => revision)).size).toBe(2500);
}, 60_000);

it("The deletion of a user with too many tasks for one request returns 204, and the scheduled job finishes the deletion", async () => {
  const tenant = await makeTenant();
  // Each task is so large that one piece of the deletion contains only this task.
  const userId = await makeUserWithTasks(tenant, 25, "x".repeat(500_000));
  expect((await call("DELETE", `/api/v1/users/${userId}`, { key: tenant.key })).status).toBe(204);
  expect(await countAssignedTasks(userId)).toBe(5);
  const [request] = invocations("fetch DELETE");
  // The request runs far fewer than 1,000 statements. The deletion of a user with 100,000 small tasks would not need more statements.
  expect(request?.counts.statements).toBeLessThan(200);
  expect((await call("GET", `/api/v1/users/${userId}`, { key: tenant.key })).status).toBe(404);
  await cron(Date.now() + 2 * minuteMs);
  expect([await countAssignedTasks(userId), await hasUserRow(userId)]).toEqual([0, false]);
  expect(await countEvents(tenant.accountId, "task.updated")).toBe(25);
}, 60_000);

it("The cron job finishes an interrupted user deletion, and no request finds the user until then", async () => {
  const tenant = await makeTenant();
  const userId = await makeUserWithTasks(tenant, 1200);
  let batches = 0;
  const batch = async (statements: D1PreparedStatement[]) => {
    if (++batches > 2) throw new Error("D1_ERROR: Network connection lost");
    return env.DB.batch(statements);
  };
  const interrupted = await callWith({ DB: d1With(env.DB, { batch }) }, "DELETE", `/api/v1/users/${userId}`, tenant.key);
  expect(interrupted.status).toBe(503);
  const remaining = await countAssignedTasks(userId);
  expect(remaining).toBeGreaterThan(0);
  expect(remaining).toBeLessThan(1200);
  const { key } = tenant;
  expect((await call("GET", `/api/v1/users/${userId}`, { key })).status).toBe(404);
  expect((await call("PATCH", `/api/v1/users/${userId}`, { key, body: { name: "Eve" } })).status).toBe(404);
  expect((await call("DELETE", `/api/v1/users/${userId}`, { key })).status).toBe(404);
  expect((await call("GET", "/api/v1/users", { key })).body.data).toEqual([]);
  expect((await call("GET", "/api/v1/analytics", { key })).body.users.total).toBe(0);
  await cron(Date.now() + 2 * minuteMs);
  expect([await countAssignedTasks(userId), await hasUserRow(userId)]).toEqual([0, false]);
  expect(await countEvents(tenant.accountId, "user.deleted")).toBe(1);
  expect(await countEvents(tenant.accountId, "task.updated")).toBe(1200);
}, 60_000);

it("A user who is being deleted gets no further task", async () => {
  const { key, accountId } = await makeTenant();
  const { body: user } = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
  const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
  await requestDeletion(user.id, Date.now());
  const responses = [
    await call("POST", "/api/v1/tasks", { key, body: { title: "Late", assignee_id: user.id } }),
    await call("PATCH", `/api/v1/tasks/${task.id}`, { key, body: { assignee_id: user.id } }),
  ];
  for (const { status, body } of responses) expect([status, body.errors?.[0].code]).toEqual([422, "unknown_user"]);
  const events = await readResourceEvents(accountId);
  expect(events.map(({ type }) => type)).toEqual(["task.created"]);
});

it("A piece of a user deletion creates at most 2,500 deliveries, even if many webhooks are subscribed to its events", async () => {
  const tenant = await makeTenant();
  const userId = await makeUserWithTasks(tenant, 300);
  await insertDisabledWebhooks(tenant.accountId);
  const context = { db, now: Date.now(), actor: systemOn(tenant.accountId), commit: commitTo({ db }) };
  expect(await onDelete.detachSome(context, userId, 500)).toBe("some changed");
  expect([await countAssignedTasks(userId), await countRows("deliveries", tenant.accountId)]).toEqual([300 - 125, 2500]);
});

it("The user deletions of accounts take turns, so that no account waits for all deletions of another account", async () => {
  const [many, one] = [await makeTenant(), await makeTenant()];
  const earlierIds = await Promise.all([1, 2, 3].map(() => makeUserWithTasks(many, 1)));
  const laterId = await makeUserWithTasks(one, 1);
  for (const userId of earlierIds) await requestDeletion(userId, 1000);
  await requestDeletion(laterId, 2000);
  // Each deletion needs two pieces: the first unassigns the task, and the second deletes the user.
  await finishDeletions({ db }, [onDelete], Date.now(), 4);
  expect(await hasUserRow(laterId)).toBe(false);
  expect(await countRows("users", many.accountId)).toBeGreaterThan(0);
});

it("A user deletion returns 409 and changes nothing if a hundred users of the account are already being deleted", async () => {
  const tenant = await makeTenant();
  const userId = await makeUserWithTasks(tenant, 1);
  await insertUsersInDeletion(tenant.accountId, 100);
  const deleteUser = () => call("DELETE", `/api/v1/users/${userId}`, { key: tenant.key });
  const rejected = await deleteUser();
  expect([rejected.status, rejected.body.code]).toEqual([409, "limit_reached"]);
  expect((await call("GET", "/api/v1/users", { key: tenant.key })).body.data).toHaveLength(1);
  await finishDeletions({ db }, [onDelete], Date.now() + 2 * minuteMs, 200);
  expect((await deleteUser()).status).toBe(204);
});

it("A user deletion that fails does not block other deletions", async () => {
  const tenants = [await makeTenant(), await makeTenant()];
  const [failingId = "", otherId = ""] = await Promise.all(tenants.map((tenant) => makeUserWithTasks(tenant, 5)));
  await requestDeletion(failingId, 1);
  await requestDeletion(otherId, 2);
  let batches = 0;
  const failingDb = new Proxy(db, {
    get: (target, name) =>
      name === "batch"
        ? async (...args: Parameters<typeof db.batch>) => {
            // The first batch belongs to the deletion that was requested first.
            if (batches++ === 0) throw new Error("D1_ERROR: out of order");
            return target.batch(...args);
          }
        : Reflect.get(target, name),
  });
  await expect(finishDeletions({ db: failingDb }, [onDelete], Date.now(), 10)).rejects.toThrow("could not be finished");
  expect([await hasUserRow(failingId), await hasUserRow(otherId)]).toEqual([true, false]);
});
