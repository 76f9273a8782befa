import { createRoute, z } from "@hono/zod-openapi";
import { etagOf, preconditionOf, respondOne } from "../../api/conditional.ts";
import { runIdempotentPost } from "../../api/idempotency.ts";
import { contextOf } from "../../api/operation-contexts.ts";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { failsWith, requireScope, sharesCpu } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, del, get, mergePatch, patch, post, withConditions, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { json, noContent, notModified, postJson } from "../../api/route-parts/responses.ts";
import { component, idParam, pageQuery, severalWords } from "../../api/route-parts/schemas.ts";
import { createRouter } from "../../api/router.ts";
import { omitUndefined } from "../../lib/inputs/omit-undefined.ts";
import { idInput, text, timeInQuery } from "../../lib/inputs/values.ts";
import { listTasks, readTask } from "./read-tasks.ts";
import * as schemas from "./schemas.ts";
import { TaskData, taskData } from "./schemas.ts";
import { priorities, taskStatuses } from "./task.ts";
import { taskSorts } from "./task-order.ts";
import { changeTask, createTask, deleteTask } from "./write-tasks.ts";

const Task = component("Task", TaskData, { description: "A task." });
const NewTask = component("NewTask", schemas.NewTask, {
  description: "A new task. Only the title is required.",
  example: { title: "Write the release notes", priority: "high", labels: ["docs"], due_at: "2026-02-14T17:00:00.000Z" },
});
const TaskPatch = component("TaskPatch", schemas.TaskPatch, {
  description: "The changes to a task. `null` clears a member.",
  example: { status: "done" },
});

const params = idParam("tsk_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Tasks"];

export const routes = createRouter();

const list = createRoute({
  ...get("/tasks", "listTasks", "List tasks"),
  description:
    "Lists the tasks of the account, newest first unless `sort` specifies another order. If you sort by `due_at`, tasks without a due date come last in both directions.",
  tags,
  ...requireScope("tasks:read"),
  ...sharesCpu,
  request: {
    query: z.strictObject({
      ...pageQuery,
      status: severalWords(taskStatuses, "Returns only tasks with one of these statuses"),
      priority: severalWords(priorities, "Returns only tasks with one of these priorities"),
      assignee_id: idInput.optional().meta({
        description: "Returns only tasks that are assigned to the user with this id.",
        example: "usr_019a1b2c3d4e7f8091a2b3c4d5e6f708",
      }),
      due_before: timeInQuery
        .optional()
        .meta({ description: "Returns only tasks that are due before this time.", example: "2027-01-01T00:00:00Z" }),
      due_after: timeInQuery
        .optional()
        .meta({ description: "Returns only tasks that are due at or after this time.", example: "2026-01-01T00:00:00Z" }),
      updated_after: timeInQuery.optional().meta({
        description: "Returns only tasks that changed at or after this time. Use this filter to synchronize tasks.",
        example: "2026-01-01T00:00:00Z",
      }),
      q: text(1, 200)
        .optional()
        .meta({ description: "Returns only tasks whose title or description contains this text, regardless of case.", example: "release" }),
      sort: z
        .enum(taskSorts)
        .default("-created_at")
        .meta({ description: `The sort order, where \`-\` means descending: ${taskSorts.map((sort) => `\`${sort}\``).join(", ")}.` }),
    }),
  },
  responses: { 200: json(pageOf(Task, "TaskPage"), "A page of tasks.", "Link") },
});

const Position = z.strictObject({ value: z.int().nullable(), id: z.string() });

routes.openapi(list, async (c) => {
  const { limit, cursor, sort, ...query } = c.req.valid("query");
  const filter = {
    statuses: query.status,
    priorities: query.priority,
    assigneeId: query.assignee_id,
    dueBefore: query.due_before,
    dueAfter: query.due_after,
    updatedAfter: query.updated_after,
    q: query.q,
  };
  const after = positionAt(c, cursor, Position);
  const { rows, next } = await listTasks(contextOf(c), { filter, sort, after, limit });
  return respondPage(c, rows.map(taskData), next);
});

const create = createRoute({
  ...post("/tasks", "createTask", "Create a task"),
  description: "Creates a task. Sends the event `task.created`, and also `task.completed` if the new task is done.",
  tags,
  ...requireScope("tasks:write"),
  ...withIdempotencyKey,
  request: { body: body(NewTask) },
  responses: { 201: postJson(Task, "The new task.", "Location", "ETag") },
});

routes.openapi(create, (c) => {
  const { assignee_id: assigneeId, due_at: dueAt, ...content } = c.req.valid("json");
  return runIdempotentPost(c, {
    run: (context) => createTask(context, { ...content, assigneeId, dueAt }),
    respond: (task) => ({
      status: 201,
      body: taskData(task),
      headers: { Location: `${c.req.path}/${task.id}`, ETag: etagOf(task.revision) },
    }),
  });
});

const read = createRoute({
  ...get("/tasks/{id}", "getTask", "Get a task"),
  description: "Returns one task. With `If-None-Match`, the response is 304 without a body if the task is unchanged.",
  tags,
  ...requireScope("tasks:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(Task, "The task.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const task = await readTask(contextOf(c), c.req.valid("param").id);
  return respondOne(c, taskData(task), etagOf(task.revision));
});

const change = createRoute({
  ...patch("/tasks/{id}", "updateTask", "Change a task"),
  description:
    "Changes the members that you send, and keeps the other members. `completed_at` is set when the status becomes `done`, and cleared when the status changes from `done` to another status. Sends `task.updated` if something changed, and also `task.completed` if the status became done.",
  tags,
  ...requireScope("tasks:write"),
  ...failsWith("conflict", "limit_reached"),
  ...withConditions,
  request: { params, body: mergePatch(TaskPatch) },
  responses: { 200: json(Task, "The task after the change.", "ETag") },
});

routes.openapi(change, async (c) => {
  const { assignee_id: assigneeId, due_at: dueAt, description, labels, ...rest } = c.req.valid("json");
  const patch = omitUndefined({
    ...rest,
    assigneeId,
    dueAt,
    description: description === null ? "" : description,
    labels: labels === null ? [] : labels,
  });
  const task = await changeTask(contextOf(c), c.req.valid("param").id, patch, preconditionOf(c));
  return respondJson(c, taskData(task), 200, { ETag: etagOf(task.revision) });
});

const remove = createRoute({
  ...del("/tasks/{id}", "deleteTask", "Delete a task"),
  description: "Permanently deletes the task. Sends the event `task.deleted`.",
  tags,
  ...requireScope("tasks:write"),
  ...failsWith("conflict"),
  ...withConditions,
  request: { params },
  responses: { 204: noContent("The task was deleted.") },
});

routes.openapi(remove, async (c) => {
  await deleteTask(contextOf(c), c.req.valid("param").id, preconditionOf(c));
  return respondEmpty(c, 204);
});
