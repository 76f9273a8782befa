import { createRoute, z } from "@hono/zod-openapi";
import { bucketsOf, intervals } from "../../analytics/buckets.ts";
import { readAnalytics } from "../../analytics/read-analytics.ts";
import { dayMs, iso } from "../../clock.ts";
import { Failure } from "../../errors.ts";
import { timeInput } from "../../http/inputs/values.ts";
import { priorities, taskStatuses } from "../../tasks/task.ts";
import { windowsAt } from "../../usage/windows.ts";
import { reading } from "../acting.ts";
import { respondJson } from "../respond.ts";
import { requireScope } from "../route-parts/access.ts";
import { json, problems } from "../route-parts/responses.ts";
import { time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const mostPoints = 750;

const count = z.int().min(0);
const countBy = (names: readonly string[]) => z.strictObject(Object.fromEntries(names.map((name) => [name, count])));

const Analytics = z
  .strictObject({
    from: time,
    to: time,
    interval: z.enum(intervals),
    tasks: z.strictObject({
      created: count.openapi({ description: "Created in the span." }),
      completed: count.openapi({ description: "Completed in the span." }),
      open: count.openapi({ description: "To do or in progress now." }),
      overdue: count.openapi({ description: "Open now and past their due date." }),
      completion_rate: z
        .number()
        .min(0)
        .max(100)
        .nullable()
        .openapi({ description: "Percent of those created in the span that are done. Null where none were." }),
      median_hours_to_complete: z
        .number()
        .nullable()
        .openapi({ description: "From creation to completion, of those completed in the span." }),
      by_status: countBy(taskStatuses).openapi({ description: "All tasks, now." }),
      by_priority: countBy(priorities).openapi({ description: "All tasks, now." }),
    }),
    users: z.strictObject({ total: count, active: count }).openapi({ description: "Now." }),
    by_assignee: z
      .array(z.strictObject({ user_id: z.string(), open: count, completed: count }))
      .openapi({ description: "Open now and completed in the span: the 100 users with the most." }),
    series: z.array(z.strictObject({ start: time, created: count, completed: count })).openapi({
      description: "One point for each UTC day, ISO week or month that the span touches. Only what lies in the span is counted.",
    }),
  })
  .openapi("Analytics");

export const analytics = createRouter();

const read = createRoute({
  method: "get",
  path: "/analytics",
  operationId: "getAnalytics",
  summary: "Get analytics",
  description:
    "Figures about the account's tasks and users. By default the last 30 days by day: the current hour and the 719 full hours before it.",
  tags: ["Analytics"],
  ...requireScope("analytics:read"),
  request: {
    query: z.strictObject({
      from: timeInput.optional().openapi({ type: "string", format: "date-time", description: "Inclusive." }),
      to: timeInput.optional().openapi({ type: "string", format: "date-time", description: "Exclusive." }),
      interval: z.enum(intervals).default("day"),
    }),
  },
  responses: { 200: json(Analytics, "The figures."), ...problems(400) },
});

const refuse = (parameter: string, detail: string) =>
  new Failure("invalid_parameter", "The span is not valid.", { faults: [{ parameter, code: "invalid_span", detail }] });

analytics.openapi(read, async (c) => {
  const { interval, from: wantedFrom, to: wantedTo } = c.req.valid("query");
  const { window } = windowsAt("30d", c.get("startedAt"));
  const to = wantedTo ?? window.to;
  const from = wantedFrom ?? (wantedTo === undefined ? window.from : to - 30 * dayMs);
  if (from < 0) throw refuse("from", "Must not be earlier than 1970.");
  if (from >= to) throw refuse("from", "Must be earlier than `to`.");
  if ((to - from) / dayMs > mostPoints * 31 || bucketsOf(from, to, interval).length > mostPoints) {
    throw refuse("interval", `The span has more than ${mostPoints} points at this interval. Take a longer interval or a shorter span.`);
  }
  const figures = await readAnalytics(reading(c), { from, to, interval });
  const { tasks } = figures;
  return respondJson(
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
