import { createRoute, z } from "@hono/zod-openapi";
import { text, timeInput, timeInputOrNull } from "../../http/inputs/values.ts";
import { listTasks, positionOf, readTask, taskSorts } from "../../tasks/read-tasks.ts";
import { priorities, taskStatuses } from "../../tasks/task.ts";
import { TaskData, taskData } from "../../tasks/task-data.ts";
import { changeTask, createTask, deleteTask } from "../../tasks/write-tasks.ts";
import { reading, writing } from "../acting.ts";
import { etagOf, ifMatch, respondOne } from "../middleware/conditional.ts";
import { runOnce } from "../middleware/idempotency.ts";
import { respondEmpty, respondJson } from "../respond.ts";
import { requireScope } from "../route-parts/access.ts";
import { cut, pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { body, mergePatch, omitUndefined, withConditions, withIdempotencyKey, withIfMatch } from "../route-parts/requests.ts";
import { json, noContent, notModified, postJson, problems } from "../route-parts/responses.ts";
import { idInput, idParam, pageQuery } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const Status = z.enum(taskStatuses);
const Priority = z.enum(priorities);
const title = text(1, 200);
const description = text(0, 10_000);
const labels = z.array(text(1, 50)).max(20);

export const Task = z.strictObject(TaskData.shape).openapi("Task");

const NewTask = z
  .strictObject({
    title,
    description: description.default(""),
    status: Status.default("todo"),
    priority: Priority.default("normal"),
    assignee_id: idInput.nullable().default(null),
    labels: labels.default([]),
    due_at: timeInputOrNull.default(null),
  })
  .openapi("NewTask");

const TaskPatch = z
  .strictObject({
    title: title.optional(),
    description: description.nullable().optional(),
    status: Status.optional(),
    priority: Priority.optional(),
    assignee_id: idInput.nullable().optional(),
    labels: labels.nullable().optional(),
    due_at: timeInputOrNull.optional(),
  })
  .openapi("TaskPatch", { description: "The members to change. `null` clears." });

const params = idParam("tsk_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Tasks"];

export const tasks = createRouter();

const list = createRoute({
  method: "get",
  path: "/tasks",
  operationId: "listTasks",
  summary: "List tasks",
  description: "Newest first, unless `sort` says otherwise. Tasks without a due date come last in both directions of `due_at`.",
  tags,
  ...requireScope("tasks:read"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      status: Status.optional(),
      priority: Priority.optional(),
      assignee_id: idInput.optional(),
      due_before: timeInput.optional(),
      due_after: timeInput.optional(),
      updated_after: timeInput.optional(),
      q: text(1, 200).optional().openapi({ description: "Part of a title or description, in any case." }),
      sort: z.enum(taskSorts).default("-created_at").openapi({ description: "With `-`: descending." }),
    }),
  },
  responses: { 200: json(pageOf(Task, "TaskPage"), "A page of tasks.", "Link"), ...problems(400) },
});

const Position = z.strictObject({ value: z.int().nullable(), id: z.string() });

tasks.openapi(list, async (c) => {
  const { limit, cursor, sort, ...query } = c.req.valid("query");
  const filter = {
    status: query.status,
    priority: query.priority,
    assigneeId: query.assignee_id,
    dueBefore: query.due_before,
    dueAfter: query.due_after,
    updatedAfter: query.updated_after,
    q: query.q,
  };
  const after = positionAt(c, cursor, Position);
  const { rows, last } = cut(await listTasks(reading(c), { filter, sort, after, limit: limit + 1 }), limit);
  return respondPage(c, rows.map(taskData), last && positionOf(last, sort));
});

const create = createRoute({
  method: "post",
  path: "/tasks",
  operationId: "createTask",
  summary: "Create a task",
  tags,
  ...requireScope("tasks:write"),
  ...withIdempotencyKey,
  request: { body: body(NewTask) },
  responses: { 201: postJson(Task, "The new task.", "Location", "ETag"), ...problems(400, 409, 408, 413, 415, 422) },
});

tasks.openapi(create, (c) => {
  const { assignee_id: assigneeId, due_at: dueAt, ...content } = c.req.valid("json");
  return runOnce(c, {
    run: (writing) => createTask(writing, { ...content, assigneeId, dueAt }),
    respond: (task) => ({
      status: 201,
      body: taskData(task),
      headers: { Location: `${c.req.path}/${task.id}`, ETag: etagOf(task.revision) },
    }),
  });
});

const read = createRoute({
  method: "get",
  path: "/tasks/{id}",
  operationId: "getTask",
  summary: "Get a task",
  tags,
  ...requireScope("tasks:read"),
  ...withConditions,
  request: { params },
  responses: { 200: json(Task, "The task.", "ETag"), ...notModified, ...problems(400, 404, 412) },
});

tasks.openapi(read, async (c) => {
  const task = await readTask(reading(c), c.req.valid("param").id);
  return respondOne(c, taskData(task), etagOf(task.revision));
});

const change = createRoute({
  method: "patch",
  path: "/tasks/{id}",
  operationId: "updateTask",
  summary: "Change a task",
  tags,
  ...requireScope("tasks:write"),
  ...withIfMatch,
  request: { params, body: mergePatch(TaskPatch) },
  responses: { 200: json(Task, "The whole task.", "ETag"), ...problems(400, 404, 409, 412, 408, 413, 415, 422) },
});

tasks.openapi(change, async (c) => {
  const { assignee_id: assigneeId, due_at: dueAt, description, labels, ...rest } = c.req.valid("json");
  const patch = omitUndefined({
    ...rest,
    assigneeId,
    dueAt,
    description: description === null ? "" : description,
    labels: labels === null ? [] : labels,
  });
  const task = await changeTask(writing(c), c.req.valid("param").id, patch, ifMatch(c));
  return respondJson(taskData(task), 200, { ETag: etagOf(task.revision) });
});

const remove = createRoute({
  method: "delete",
  path: "/tasks/{id}",
  operationId: "deleteTask",
  summary: "Delete a task",
  tags,
  ...requireScope("tasks:write"),
  ...withIfMatch,
  request: { params },
  responses: { 204: noContent("It is deleted."), ...problems(400, 404, 409, 412) },
});

tasks.openapi(remove, async (c) => {
  await deleteTask(writing(c), c.req.valid("param").id, ifMatch(c));
  return respondEmpty(204);
});
