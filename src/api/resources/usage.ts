import { createRoute, z } from "@hono/zod-openapi";
import { readHighestUsage, readKeyUsage } from "../../admission/rate-limit-usage.ts";
import { iso } from "../../clock.ts";
import { requireKey } from "../../keys/read-keys.ts";
import { percent } from "../../percent.ts";
import { classes } from "../../usage/figures.ts";
import { dimensions, readBreakdown } from "../../usage/read-breakdown.ts";
import { readUsage } from "../../usage/read-usage.ts";
import { refreshRollUps } from "../../usage/refresh-roll-ups.ts";
import type { Span } from "../../usage/windows.ts";
import { reading } from "../acting.ts";
import { respondJson } from "../respond.ts";
import { requireScope } from "../route-parts/access.ts";
import { json, problems } from "../route-parts/responses.ts";
import { idInput, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const count = z.int().min(0);
const share = z.number().min(0).max(100);
const milliseconds = z.number().min(0);
const SpanShape = z.strictObject({ from: time, to: time });

const asOf = time.openapi({ description: "How far the log has been counted." });
const windowQuery = z.enum(["24h", "7d", "30d"]).default("30d");

const Usage = z
  .strictObject({
    as_of: asOf,
    window: SpanShape,
    previous: SpanShape,
    total_requests: z.strictObject({ value: count, previous: count, change_percent: z.number().nullable() }),
    success_rate: z.strictObject({ value: share.nullable(), previous: share.nullable(), change_points: z.number().nullable() }),
    avg_response_time_ms: z
      .strictObject({ value: milliseconds.nullable(), previous: milliseconds.nullable(), change_ms: z.number().nullable() })
      .openapi({
        description:
          "Of admitted requests, from reaching the Worker to the answer being ready. The clock of a Worker moves only with I/O: pure computing is not seen.",
      }),
    p50_ms: milliseconds.nullable().openapi({ description: "Percentiles are within 5 %." }),
    p95_ms: milliseconds.nullable(),
    p99_ms: milliseconds.nullable(),
    rate_limit: z
      .strictObject({ key_id: z.string().nullable(), used: count, limit: count, percent: share, resets_at: time })
      .openapi({ description: "Of the key asked for, else of the account's live key with the highest share of its limit." }),
    by_class: z.strictObject(Object.fromEntries(classes.map((name) => [name, count]))).openapi({ description: "`4xx` without 429." }),
    series: z
      .array(
        z.strictObject({
          start: time,
          requests: count,
          successes: count,
          avg_response_time_ms: milliseconds.nullable(),
          p50_ms: milliseconds.nullable(),
          p95_ms: milliseconds.nullable(),
          p99_ms: milliseconds.nullable(),
        }),
      )
      .openapi({ description: "By hour for 24h, else by UTC day; the first and the last lie in the window in part." }),
  })
  .openapi("Usage");

const Breakdown = z
  .strictObject({
    as_of: asOf,
    window: SpanShape,
    data: z.array(
      z.strictObject({
        value: z.string().openapi({ description: "The id of a key, a route, a status code or a date." }),
        requests: count,
        successes: count,
        avg_response_time_ms: milliseconds.nullable(),
      }),
    ),
  })
  .openapi("UsageBreakdown");

const keyId = idInput.optional().openapi({ description: "Only this key's." });
const tags = ["Usage"];
const spanJson = (span: Span) => ({ from: iso(span.from), to: iso(span.to) });

export const usage = createRouter();

const read = createRoute({
  method: "get",
  path: "/usage",
  operationId: "getUsage",
  summary: "Get usage",
  description: "The figures of a window that ends with the current hour, against the window before it.",
  tags,
  ...requireScope("usage:read"),
  request: { query: z.strictObject({ window: windowQuery, key_id: keyId }) },
  responses: { 200: json(Usage, "The figures."), ...problems(400, 404) },
});

usage.openapi(read, async (c) => {
  const { window, key_id } = c.req.valid("query");
  const asking = await refreshRollUps({ ...reading(c), guards: c.env.KEY_GUARD });
  const [figures, rateLimit] = await Promise.all([
    readUsage(asking, { window, keyId: key_id }),
    key_id === undefined ? readHighestUsage(asking) : readKeyUsage(asking, key_id),
  ]);
  const { totalRequests, successRate, avgResponseTimeMs } = figures;
  return respondJson(
    {
      as_of: iso(asking.now),
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
  request: { query: z.strictObject({ window: windowQuery, by: z.enum(dimensions), key_id: keyId }) },
  responses: { 200: json(Breakdown, "The shares."), ...problems(400, 404) },
});

usage.openapi(breakdown, async (c) => {
  const { window: name, by, key_id } = c.req.valid("query");
  const asking = reading(c);
  if (key_id !== undefined) await requireKey(asking, key_id);
  const { window, shares } = await readBreakdown(await refreshRollUps(asking), { window: name, by, keyId: key_id });
  return respondJson(
    {
      as_of: iso(asking.now),
      window: spanJson(window),
      data: shares.map(({ value, requests, successes, averageMs }) => ({ value, requests, successes, avg_response_time_ms: averageMs })),
    },
    200,
  );
});
