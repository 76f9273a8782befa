import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { call, makeTenant } from "../../support/client.ts";
import { countEvents, readEventRows } from "../../support/webhook-rows.ts";

const insertTaskCopies = (taskId: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO tasks
      SELECT 'tsk_' || printf('%032x', made.value), account_id, title, description, search_text, status, priority, assignee_id, labels,
        due_at, completed_at, revision, created_at, updated_at
      FROM tasks, json_each(?) AS made WHERE tasks.id = ?`,
  )
    .bind(JSON.stringify(Array.from({ length: count }, (_, index) => index)), taskId)
    .run();

const countUnassignedTasks = (accountId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM tasks WHERE account_id = ? AND assignee_id IS NULL").bind(accountId).first<number>("count");

it("Deleting a user creates the right task events even while the tasks are changed and deleted", async () => {
  const { key, accountId } = await makeTenant();
  const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
  const tasks: string[] = [];
  for (let index = 0; index < 12; index++)
    tasks.push((await call("POST", "/api/v1/tasks", { key, body: { title: `Task ${index}`, assignee_id: user } })).body.id);
  await Promise.all([
    call("DELETE", `/api/v1/users/${user}`, { key }),
    ...tasks.slice(0, 4).map((id) => call("DELETE", `/api/v1/tasks/${id}`, { key })),
    ...tasks.slice(4, 8).map((id) => call("PATCH", `/api/v1/tasks/${id}`, { key, body: { title: "Changed", assignee_id: null } })),
  ]);
  const events = (await call("GET", "/api/v1/events?order=asc&limit=100", { key })).body.data as { type: string; data: { id: string } }[];
  expect(events.filter(({ type }) => type === "user.deleted")).toHaveLength(1);
  const stored = (await readEventRows(accountId)).map(({ type, data }) => ({ type, data: JSON.parse(String(data)) }));
  for (const id of tasks.slice(0, 4)) {
    expect(events.filter(({ type, data }) => type === "task.deleted" && data.id === id)).toHaveLength(1);
    const ofTask = stored.filter(({ data }) => data.id === id);
    const assigneeAtEnd = ofTask.find(({ type }) => type === "task.deleted")?.data.assignee_id;
    // If the deletion of the user removed the assignee of a task first, the task must have an update event. If the task was deleted first, the
    // task must have no update event.
    expect(ofTask.some(({ type }) => type === "task.updated")).toBe(assigneeAtEnd === null);
  }
});

it("Deleting a user with a thousand long tasks unassigns each task and creates an event for each task", async () => {
  const { key, accountId } = await makeTenant();
  const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
  const first = (await call("POST", "/api/v1/tasks", { key, body: { title: "First", description: "é".repeat(5000), assignee_id: user } }))
    .body.id;
  await insertTaskCopies(first, 999);
  expect((await call("DELETE", `/api/v1/users/${user}`, { key })).status).toBe(204);
  expect(await countUnassignedTasks(accountId)).toBe(1000);
  expect(await countEvents(accountId, "task.updated")).toBe(1000);
});
