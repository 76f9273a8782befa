import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { dayMs, dayStart, hourMs, iso } from "../../../../src/lib/time/clock.ts";
import { bucketsOf } from "../../../../src/resources/analytics/buckets.ts";
import { priorities, taskStatuses } from "../../../../src/resources/tasks/task.ts";
import { call, makeTenant } from "../../support/client.ts";
import { insertTasks } from "../../support/resource-rows.ts";

/** The task columns that the analytics read. Times are in milliseconds since the epoch. */
interface TaskTimes {
  created: number;
  completed: number | null;
  due: number | null;
  status: string;
  priority: string;
}

/** Deletes all tasks of an account, and inserts `tasks` instead. */
async function replaceTasks(accountId: string, tasks: TaskTimes[]): Promise<void> {
  await env.DB.prepare("DELETE FROM tasks WHERE account_id = ?").bind(accountId).run();
  await env.DB.prepare(
    `INSERT INTO tasks
      (id, account_id, title, description, search_text, status, priority, labels, revision, created_at, updated_at, completed_at, due_at)
      SELECT 'tsk_' || lower(hex(randomblob(16))), ?1, 'x', '', 'x', value ->> 'status', value ->> 'priority', '[]', '0',
        value ->> 'created', value ->> 'created', value ->> 'completed', value ->> 'due' FROM json_each(?2)`,
  )
    .bind(accountId, JSON.stringify(tasks))
    .run();
}

const randomItem = <Item>(items: readonly Item[]): Item => items[Math.floor(Math.random() * items.length)] as Item;

/** Returns tasks with random creation times. Some tasks are created before `from`, some between `from` and `to`, and some after `to`. */
const randomTasks = (count: number, from: number, to: number) =>
  Array.from({ length: count }, () => {
    const created = from + Math.floor((Math.random() * 2 - 0.5) * (to - from));
    const status = randomItem(taskStatuses);
    const completed = status === "done" ? created + Math.floor(Math.random() * 20 * dayMs) : null;
    const due = randomItem([null, Date.now() - dayMs, Date.now() + dayMs]);
    return { created, status, completed, priority: randomItem(priorities), due };
  });

describe("The analytics API", () => {
  it("counts users and assignees, over the last 30 days by day if the request names no span", async () => {
    const { key, accountId } = await makeTenant();
    const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body;
    await call("POST", "/api/v1/users", { key, body: { name: "Bob", email: "bob@example.com", status: "suspended" } });
    await insertTasks(accountId, { count: 2, assigneeId: user.id });
    const { body } = await call("GET", "/api/v1/analytics", { key });
    expect(body.users).toEqual({ total: 2, active: 1 });
    expect(body.by_assignee).toEqual([{ user_id: user.id, open: 2, completed: 0 }]);
    expect([body.interval, Date.parse(body.to) - Date.parse(body.from)]).toEqual(["day", 30 * dayMs]);
    expect([30, 31]).toContain(body.series.length);
    expect(body.series.at(-1)).toEqual({ start: iso(dayStart(Date.parse(body.to) - 1)), created: 2, completed: 0 });
  });

  it("returns the same figures as a simple computation over random tasks", async () => {
    const { key, accountId } = await makeTenant();
    const [from, to] = [Date.UTC(2026, 0, 10), Date.UTC(2026, 1, 10)];
    for (let round = 0; round < 6; round++) {
      const tasks = randomTasks(round * 7, from, to);
      await replaceTasks(accountId, tasks);
      const isInSpan = (timeMs: number | null) => timeMs !== null && timeMs >= from && timeMs < to;
      const created = tasks.filter((task) => isInSpan(task.created));
      const hours = tasks
        .flatMap((task) => (task.completed !== null && isInSpan(task.completed) ? [(task.completed - task.created) / hourMs] : []))
        .toSorted((a, b) => a - b);
      const middle = [hours[Math.floor((hours.length - 1) / 2)] ?? 0, hours[Math.ceil((hours.length - 1) / 2)] ?? 0];
      const open = tasks.filter(({ status }) => status === "todo" || status === "in_progress");
      const countBy = <Name extends string>(names: readonly Name[], nameOf: (task: (typeof tasks)[number]) => Name) =>
        Object.fromEntries(names.map((name) => [name, tasks.filter((task) => nameOf(task) === name).length]));
      const path = `/api/v1/analytics?from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`;
      const { body } = await call("GET", path, { key });
      const { median_hours_to_complete: median, completion_rate: rate, ...figures } = body.tasks;
      expect(figures).toEqual({
        created: created.length,
        completed: hours.length,
        open: open.length,
        overdue: open.filter(({ due }) => due !== null && due < Date.now()).length,
        by_status: countBy(taskStatuses, ({ status }) => status),
        by_priority: countBy(priorities, ({ priority }) => priority),
      });
      if (hours.length === 0) expect(median).toBeNull();
      else expect(median).toBeCloseTo(((middle[0] ?? 0) + (middle[1] ?? 0)) / 2, 1);
      if (created.length === 0) expect(rate).toBeNull();
      else expect(rate).toBeCloseTo((100 * created.filter(({ status }) => status === "done").length) / created.length, 0);
    }
  });
});

it("A series has a point for each day, ISO week or month that overlaps with the span", () => {
  const startsOf = (from: string, to: string, interval: "day" | "week" | "month") =>
    bucketsOf(Date.parse(from), Date.parse(to), interval).map((start) => new Date(start).toISOString().slice(0, 10));
  expect(startsOf("2026-02-27T23:00:00Z", "2026-03-02T00:00:00Z", "day")).toEqual(["2026-02-27", "2026-02-28", "2026-03-01"]);
  expect(startsOf("2026-11-22T23:59:59Z", "2026-12-01T00:00:00Z", "week")).toEqual(["2026-11-16", "2026-11-23", "2026-11-30"]);
  expect(startsOf("2025-12-31T00:00:00Z", "2026-03-01T00:00:00Z", "month")).toEqual(["2025-12-01", "2026-01-01", "2026-02-01"]);
});
