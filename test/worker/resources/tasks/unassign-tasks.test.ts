import { expect, it } from "vitest";
import { call, makeTenant } from "../../support/client.ts";
import { readEventRows } from "../../support/webhook-rows.ts";

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
