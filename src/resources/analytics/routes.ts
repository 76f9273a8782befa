import { createRoute, z } from "@hono/zod-openapi";
import { contextOf } from "../../api/operation-contexts.ts";
import { respondJson } from "../../api/respond.ts";
import { costs, requireScope, sharesCpu } from "../../api/route-parts/access.ts";
import { get } from "../../api/route-parts/requests.ts";
import { json } from "../../api/route-parts/responses.ts";
import { listOf, numberOrNull, objectOf, time } from "../../api/route-parts/schemas.ts";
import { createRouter } from "../../api/router.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { timeInQuery } from "../../lib/inputs/values.ts";
import { dayMs, iso } from "../../lib/time/clock.ts";
import { usageWindowsAt } from "../../usage/windows.ts";
import { priorities, taskStatuses } from "../tasks/task.ts";
import { bucketsOf, intervals } from "./buckets.ts";
import { manifest } from "./manifest.ts";
import { readAnalytics } from "./read-analytics.ts";

const maxPoints = 750;

const count = z.int().min(0);
const countBy = (names: readonly string[]) =>
  z.strictObject(
    Object.fromEntries(names.map((name) => [name, count.meta({ description: `The number of tasks that are \`${name}\`.`, example: 8 })])),
  );

const Analytics = z
  .strictObject({
    from: time.meta({ description: "The start of the span, inclusive." }),
    to: time.meta({ description: "The end of the span, exclusive." }),
    interval: z
      .enum(intervals)
      .meta({ description: "The length of each point in the series: a `day`, a `week` or a `month`.", example: "day" }),
    tasks: objectOf("Figures about tasks.", {
      created: count.meta({ description: "The number of tasks created in the span.", example: 41 }),
      completed: count.meta({ description: "The number of tasks completed in the span.", example: 36 }),
      open: count.meta({ description: "The current number of open tasks, which have the status `todo` or `in_progress`.", example: 17 }),
      overdue: count.meta({ description: "The current number of open tasks that are past their due date.", example: 2 }),
      completion_rate: z.number().min(0).max(100).nullable().meta({
        description:
          "The percentage of tasks that are now done, among the tasks that were created in the span. The value is null if no tasks were created.",
        example: 78.05,
      }),
      median_hours_to_complete: numberOrNull.meta({
        description:
          "The median number of hours from creation to completion, for tasks that were completed in the span. The value is null if no tasks were completed.",
        example: 26.5,
      }),
      by_status: countBy(taskStatuses).meta({ description: "The current number of tasks by status." }),
      by_priority: countBy(priorities).meta({ description: "The current number of tasks by priority." }),
    }),
    users: objectOf("Figures about users.", {
      total: count.meta({ description: "The current number of users.", example: 12 }),
      active: count.meta({ description: "The current number of users whose status is `active`.", example: 11 }),
    }),
    by_assignee: listOf("The 100 users with the most tasks. The ranking counts open tasks and tasks that were completed in the span.", {
      user_id: z.string().meta({ description: "The id of the user.", example: "usr_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
      open: count.meta({ description: "The current number of open tasks of the user.", example: 3 }),
      completed: count.meta({ description: "The number of the user's tasks that were completed in the span.", example: 9 }),
    }),
    series: listOf(
      "One point for each UTC day, ISO week or month that overlaps the span. Only tasks that were created or completed within the span are counted.",
      {
        start: time.meta({ description: "The start of the day, week or month." }),
        created: count.meta({ description: "The number of tasks created in the day, week or month.", example: 4 }),
        completed: count.meta({ description: "The number of tasks completed in the day, week or month.", example: 5 }),
      },
    ),
  })
  .openapi("Analytics", { description: "Figures about the account's tasks and users." });

export const routes = createRouter();

const read = createRoute({
  ...get("/analytics", "getAnalytics", "Get analytics"),
  description:
    "Returns figures about the account's tasks and users. The default span has 30 days: the current hour and the 719 full hours before it. By default, there is one point for each day. A request costs five units of each limit, because it reads much.",
  tags: ["Analytics"],
  ...requireScope("analytics:read"),
  ...costs(manifest.costs.getAnalytics),
  ...sharesCpu,
  request: {
    query: z.strictObject({
      from: timeInQuery.optional().meta({
        type: "string",
        format: "date-time",
        description: "The start of the span, inclusive. The default is 30 days before `to`.",
        example: "2026-01-01T00:00:00Z",
      }),
      to: timeInQuery.optional().meta({
        type: "string",
        format: "date-time",
        description: "The end of the span, exclusive. The default is the end of the current hour.",
        example: "2026-02-01T00:00:00Z",
      }),
      interval: z
        .enum(intervals)
        .default("day")
        .meta({
          description: `The length of each point: a \`day\`, an ISO \`week\` or a \`month\`, in UTC. The span may have at most ${maxPoints} points.`,
        }),
    }),
  },
  responses: { 200: json(Analytics, "The figures about tasks and users.") },
});

const invalidSpan = (parameter: string, detail: string) =>
  new Failure("invalid_parameter", "The span is not valid.", { fieldErrors: [{ parameter, code: "invalid_span", detail }] });

routes.openapi(read, async (c) => {
  const { interval, from: wantedFrom, to: wantedTo } = c.req.valid("query");
  const { window } = usageWindowsAt("30d", c.get("startedAt"));
  const to = wantedTo ?? window.to;
  const from = wantedFrom ?? (wantedTo === undefined ? window.from : to - 30 * dayMs);
  if (from < 0) throw invalidSpan("from", "Must not be earlier than 1970.");
  if (from >= to) throw invalidSpan("from", "Must be earlier than `to`.");
  if ((to - from) / dayMs > maxPoints * 31 || bucketsOf(from, to, interval).length > maxPoints) {
    throw invalidSpan("interval", `The span has more than ${maxPoints} points at this interval. Use a longer interval or a shorter span.`);
  }
  const figures = await readAnalytics(contextOf(c), { from, to, interval });
  const { tasks } = figures;
  return respondJson(
    c,
    {
      from: iso(figures.from),
      to: iso(figures.to),
      interval: figures.interval,
      tasks: {
        created: tasks.created,
        completed: tasks.completed,
        open: tasks.open,
        overdue: tasks.overdue,
        completion_rate: tasks.completionRate,
        median_hours_to_complete: tasks.medianHoursToComplete,
        by_status: tasks.byStatus,
        by_priority: tasks.byPriority,
      },
      users: figures.users,
      by_assignee: figures.byAssignee.map(({ userId, open, completed }) => ({ user_id: userId, open, completed })),
      series: figures.series.map(({ start, created, completed }) => ({ start: iso(start), created, completed })),
    },
    200,
  );
});
