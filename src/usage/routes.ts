import { createRoute, z } from "@hono/zod-openapi";
import { readHighestUsage, readKeyUsage } from "../admission/rate-limit-usage.ts";
import { logContext, readContext } from "../api/acting.ts";
import { respondJson } from "../api/respond.ts";
import { failsWith, requireScope } from "../api/route-parts/access.ts";
import { json } from "../api/route-parts/responses.ts";
import { time } from "../api/route-parts/schemas.ts";
import { createRouter } from "../api/router.ts";
import { idInput } from "../inputs/values.ts";
import { requireKey } from "../keys/read-keys.ts";
import { iso } from "../time/clock.ts";
import { classes } from "./figures.ts";
import { percent } from "./percent.ts";
import { dimensions, readBreakdown } from "./read-breakdown.ts";
import { readUsage } from "./read-usage.ts";
import { knownAsOf, refreshRollUps } from "./refresh-roll-ups.ts";
import type { Span } from "./windows.ts";

const count = z.int().min(0);
const share = z.number().min(0).max(100);
const milliseconds = z.number().min(0);
const spanOf = (description: string) =>
  z
    .strictObject({
      from: time.meta({ description: "Its first moment." }),
      to: time.meta({ description: "Its end, which is not in it." }),
    })
    .meta({ description });
const windowSpan = spanOf("The time that the figures are of: full hours and the current one.");

const asOf = time.meta({ description: "How far the log has been counted." });
const windowQuery = z
  .enum(["24h", "7d", "30d"])
  .default("30d")
  .meta({ description: "How long the window is, the current hour in it: `24h`, `7d` or `30d`." });

const requests = count.meta({ description: "The number of requests.", example: 1268 });
const successes = count.meta({ description: "Requests with a status below 400.", example: 1244 });
const averageMs = milliseconds
  .nullable()
  .meta({ description: "The average response time of those admitted; null where there were none.", example: 42.1 });
const percentile = (share: string, example: number) =>
  milliseconds.nullable().meta({
    description: `The time within which ${share} of the admitted requests were answered, within 5 %; null where there were none.`,
    example,
  });
const p50 = percentile("half", 34);
const p95 = percentile("95 %", 104);
const p99 = percentile("99 %", 176);

const Usage = z
  .strictObject({
    as_of: asOf,
    window: windowSpan,
    previous: spanOf("The time of the same length before it, that changes are against."),
    total_requests: z
      .strictObject({
        value: count.meta({ description: "In the window.", example: 124_563 }),
        previous: count.meta({ description: "In the time before it.", example: 110_700 }),
        change_percent: z
          .number()
          .nullable()
          .meta({ description: "The change in percent; null where there was nothing before.", example: 12.52 }),
      })
      .meta({ description: "Total Requests: every request with a key of the account, refused ones too." }),
    success_rate: z
      .strictObject({
        value: share.nullable().meta({ description: "In the window, in percent; null without a request.", example: 98.11 }),
        previous: share.nullable().meta({ description: "In the time before it.", example: 98.1 }),
        change_points: z
          .number()
          .nullable()
          .meta({ description: "The change in percentage points; null where either is null.", example: 0.01 }),
      })
      .meta({ description: "Success Rate: the share that was answered with a status below 400." }),
    avg_response_time_ms: z
      .strictObject({
        value: milliseconds.nullable().meta({ description: "In the window; null without an admitted request.", example: 42.9 }),
        previous: milliseconds.nullable().meta({ description: "In the time before it.", example: 42.4 }),
        change_ms: z
          .number()
          .nullable()
          .meta({ description: "The change in milliseconds: lower is better; null where either is null.", example: 0.5 }),
      })
      .meta({
        description:
          "Avg Response Time: of admitted requests, from reaching the Worker to the answer being ready. The clock of a Worker moves only with I/O: pure computing is not seen.",
      }),
    p50_ms: p50,
    p95_ms: p95,
    p99_ms: p99,
    rate_limit: z
      .strictObject({
        key_id: z.string().nullable().meta({ description: "The key; null where the account has none.", example: "key_4fPq2rT8vX0zB6dH" }),
        used: count.meta({ description: "The requests that were counted in this hour.", example: 3350 }),
        limit: count.meta({ description: "The requests that it may make.", example: 5000 }),
        percent: share.meta({ description: "The share that is used, in percent.", example: 67 }),
        resets_at: time.meta({ description: "When the next hour begins." }),
      })
      .meta({
        description: "Rate Limit Usage: of the key asked for, else of the account's live key with the highest share of its limit.",
      }),
    by_class: z
      .strictObject(
        Object.fromEntries(classes.map((name) => [name, count.meta({ description: `Requests with the status ${name}.`, example: 12 })])),
      )
      .meta({ description: "Requests by class of status; `4xx` without 429." }),
    series: z
      .array(
        z.strictObject({
          start: time.meta({ description: "The UTC hour or day." }),
          requests,
          successes,
          avg_response_time_ms: averageMs,
          p50_ms: p50,
          p95_ms: p95,
          p99_ms: p99,
        }),
      )
      .meta({ description: "By hour for 24h, else by UTC day; the first and the last lie in the window in part." }),
  })
  .openapi("Usage", { description: "The four figures of a window, and their parts." });

const Breakdown = z
  .strictObject({
    as_of: asOf,
    window: windowSpan,
    data: z
      .array(
        z.strictObject({
          value: z.string().meta({ description: "The id of a key, a route, a status code or a date.", example: "/api/v1/tasks" }),
          requests,
          successes,
          avg_response_time_ms: averageMs,
        }),
      )
      .meta({ description: "The shares, which add up to `total_requests` of the window." }),
  })
  .openapi("UsageBreakdown", { description: "The requests of a window by key, route, status or day." });

const keyId = idInput.optional().meta({ description: "Only requests with this key.", example: "key_4fPq2rT8vX0zB6dH" });
const tags = ["Usage"];
const spanJson = (span: Span) => ({ from: iso(span.from), to: iso(span.to) });

export const routes = createRouter();

const read = createRoute({
  method: "get",
  path: "/usage",
  operationId: "getUsage",
  summary: "Get usage",
  description:
    "The four figures of the overview, as the same roll-ups give them: of a window that ends with the current hour, against the window before it.",
  tags,
  ...requireScope("usage:read"),
  ...failsWith("not_found"),
  request: { query: z.strictObject({ window: windowQuery, key_id: keyId }) },
  responses: { 200: json(Usage, "The figures.") },
});

routes.openapi(read, async (c) => {
  const { window, key_id } = c.req.valid("query");
  const context = await refreshRollUps({ ...logContext(c), guards: c.env.KEY_GUARD });
  const [figures, rateLimit] = await Promise.all([
    readUsage(context, { window, keyId: key_id }),
    key_id === undefined ? readHighestUsage(context) : readKeyUsage(context, key_id),
  ]);
  const { totalRequests, successRate, avgResponseTimeMs } = figures;
  return respondJson(
    c,
    {
      as_of: iso(knownAsOf(context)),
      window: spanJson(figures.window),
      previous: spanJson(figures.previous),
      total_requests: { value: totalRequests.value, previous: totalRequests.previous, change_percent: totalRequests.changePercent },
      success_rate: { value: successRate.value, previous: successRate.previous, change_points: successRate.changePoints },
      avg_response_time_ms: { value: avgResponseTimeMs.value, previous: avgResponseTimeMs.previous, change_ms: avgResponseTimeMs.changeMs },
      p50_ms: figures.p50Ms,
      p95_ms: figures.p95Ms,
      p99_ms: figures.p99Ms,
      rate_limit: {
        key_id: rateLimit.keyId,
        used: rateLimit.used,
        limit: rateLimit.limit,
        percent: percent(rateLimit.used, rateLimit.limit),
        resets_at: iso(rateLimit.resetsAt),
      },
      by_class: figures.byClass,
      series: figures.series.map((point) => ({
        start: iso(point.start),
        requests: point.requests,
        successes: point.successes,
        avg_response_time_ms: point.averageMs,
        p50_ms: point.p50Ms,
        p95_ms: point.p95Ms,
        p99_ms: point.p99Ms,
      })),
    },
    200,
  );
});

const breakdown = createRoute({
  method: "get",
  path: "/usage/breakdown",
  operationId: "getUsageBreakdown",
  summary: "Get usage by key, route, status or day",
  description:
    "Over the window of GET /usage: the shares add up to its total_requests. Days come in order, the others with the most requests first.",
  tags,
  ...requireScope("usage:read"),
  ...failsWith("not_found"),
  request: {
    query: z.strictObject({
      window: windowQuery,
      by: z.enum(dimensions).meta({ description: "What to share out by: `key`, `route`, `status` or `day`.", example: "route" }),
      key_id: keyId,
    }),
  },
  responses: { 200: json(Breakdown, "The shares.") },
});

routes.openapi(breakdown, async (c) => {
  const { window: name, by, key_id } = c.req.valid("query");
  if (key_id !== undefined) await requireKey(readContext(c), key_id);
  const context = await refreshRollUps(logContext(c));
  const { window, shares } = await readBreakdown(context, { window: name, by, keyId: key_id });
  return respondJson(
    c,
    {
      as_of: iso(knownAsOf(context)),
      window: spanJson(window),
      data: shares.map(({ value, requests, successes, averageMs }) => ({ value, requests, successes, avg_response_time_ms: averageMs })),
    },
    200,
  );
});
