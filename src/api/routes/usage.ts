import { createRoute, z } from "@hono/zod-openapi";
import { readHighestUsage, readKeyUsage } from "../../admission/rate-limit-usage.ts";
import { requireKey } from "../../keys/read-keys.ts";
import { idInput } from "../../lib/inputs/values.ts";
import { iso } from "../../lib/time/clock.ts";
import { classes } from "../../usage/figures.ts";
import { percent } from "../../usage/percent.ts";
import { dimensions, readBreakdown, type Share } from "../../usage/read-breakdown.ts";
import { readUsage, type SeriesPoint } from "../../usage/read-usage.ts";
import { openSnapshot, requireAsOf } from "../../usage/usage-snapshot.ts";
import type { Span } from "../../usage/windows.ts";
import { contextOf } from "../operation-contexts.ts";
import { respondJson } from "../respond.ts";
import { failsWith, requireScope, sharesCpu } from "../route-parts/access.ts";
import { get } from "../route-parts/requests.ts";
import { json } from "../route-parts/responses.ts";
import { listOf, numberOrNull, objectOf, stringOrNull, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const count = z.int().min(0);
const share = z.number().min(0).max(100);
const milliseconds = z.number().min(0);
const spanOf = (description: string) =>
  objectOf(description, {
    from: time.meta({ description: "The start of the window, inclusive." }),
    to: time.meta({ description: "The end of the window, exclusive." }),
  });
const windowSpan = spanOf("The window that the figures cover: full hours and the current hour.");

const asOf = time.meta({ description: "The figures include the log up to this time." });
const windowQuery = z
  .enum(["24h", "7d", "30d"])
  .default("30d")
  .meta({ description: "The length of the window, including the current hour: `24h`, `7d` or `30d`." });

const requests = count.meta({ description: "The number of requests.", example: 1268 });
const successes = count.meta({ description: "The number of requests with a response status below 400.", example: 1244 });
const notReported = count.meta({
  description: "The number of requests that your own API has verified and whose response it has not reported.",
  example: 0,
});
const averageMs = milliseconds.nullable().meta({
  description: "The average response time of the admitted requests, in milliseconds. The value is null if no requests were admitted.",
  example: 42.1,
});
const percentile = (share: string, example: number) =>
  milliseconds.nullable().meta({
    description: `The time in milliseconds within which ${share} of the admitted requests got a response. The value is accurate to 5 %. If no requests were admitted, the value is null.`,
    example,
  });
const percentiles = { p50_ms: percentile("half", 34), p95_ms: percentile("95 %", 104), p99_ms: percentile("99 %", 176) };
const counts = { requests, successes, not_reported: notReported, avg_response_time_ms: averageMs };

const Usage = z
  .strictObject({
    as_of: asOf,
    window: windowSpan,
    previous: spanOf("The previous window of the same length. Each figure is compared with its value in the previous window."),
    total_requests: objectOf('The figure "Total Requests": all requests with a key of the account, including denied requests.', {
      value: count.meta({ description: "The number of requests in the window.", example: 124_563 }),
      previous: count.meta({ description: "The number of requests in the previous window.", example: 110_700 }),
      change_percent: numberOrNull.meta({
        description: "The change in percent, or null if the previous window has no requests.",
        example: 12.52,
      }),
    }),
    success_rate: objectOf(
      'The figure "Success Rate": the share of requests with a response status below 400, of all requests with a known status.',
      {
        value: share.nullable().meta({
          description: "The success rate in the window, in percent. The value is null if there were no requests.",
          example: 98.11,
        }),
        previous: share.nullable().meta({
          description: "The success rate in the previous window, in percent. The value is null if there were no requests.",
          example: 98.1,
        }),
        change_points: numberOrNull.meta({
          description: "The change in percentage points, or null if one of the two rates is null.",
          example: 0.01,
        }),
      },
    ),
    avg_response_time_ms: objectOf(
      'The figure "Avg Response Time": the average response time of the admitted requests. The response time starts when a request arrives, and ends when the response is ready. The clock of this service advances only during I/O, so computing time is not measured.',
      {
        value: milliseconds.nullable().meta({
          description: "The average response time in the window, in milliseconds. The value is null if no requests were admitted.",
          example: 42.9,
        }),
        previous: milliseconds.nullable().meta({
          description: "The average response time in the previous window, in milliseconds. The value is null if no requests were admitted.",
          example: 42.4,
        }),
        change_ms: numberOrNull.meta({
          description: "The change in milliseconds, or null if one of the two averages is null. A lower response time is better.",
          example: 0.5,
        }),
      },
    ),
    ...percentiles,
    rate_limit: objectOf(
      'The figure "Rate Limit Usage" of the requested key. Without `key_id`, the figure shows the live key of the account that has used the highest percentage of its limit.',
      {
        key_id: stringOrNull.meta({
          description: "The id of the key, or null if the account has no key.",
          example: "key_4fPq2rT8vX0zB6dH",
        }),
        used: count.meta({ description: "The number of requests counted in this hour.", example: 3350 }),
        limit: count.meta({ description: "The number of requests that the key may make in this hour.", example: 5000 }),
        percent: share.meta({ description: "The percentage of the limit that is used.", example: 67 }),
        resets_at: time.meta({ description: "The time when the next hour begins." }),
      },
    ),
    by_class: objectOf("The number of requests by status class. The class `4xx` does not include the status 429.", {
      ...Object.fromEntries(
        classes.map((name) => [name, count.meta({ description: `The number of requests with the response status ${name}.`, example: 12 })]),
      ),
      not_reported: notReported,
    }),
    series: listOf(
      "One point for each hour of a `24h` window, or for each UTC day of a longer window. The first and the last point may be only partly within the window.",
      {
        start: time.meta({ description: "The start of the UTC hour or day." }),
        ...counts,
        ...percentiles,
      },
    ),
  })
  .openapi("Usage", { description: "The four usage figures of a window, with further details." });

const Breakdown = z
  .strictObject({
    as_of: asOf,
    window: windowSpan,
    data: listOf("One entry for each value. The requests of all entries add up to the `total_requests` of the same window.", {
      value: z.string().meta({
        description: "The id of a key, a route, a status code or a date. `none` is the status of requests whose response was not reported.",
        example: "/api/v1/usage",
      }),
      ...counts,
    }),
  })
  .openapi("UsageBreakdown", { description: "The number of requests in a window by key, route, status or day." });

const keyId = idInput.optional().meta({
  description: "If you send this parameter, the figures cover only requests that used this key.",
  example: "key_4fPq2rT8vX0zB6dH",
});
const tags = ["Usage"];
const percentilesJson = ({ p50Ms, p95Ms, p99Ms }: Pick<SeriesPoint, "p50Ms" | "p95Ms" | "p99Ms">) => ({
  p50_ms: p50Ms,
  p95_ms: p95Ms,
  p99_ms: p99Ms,
});
const countsJson = (each: Omit<Share, "value">) => ({
  requests: each.requests,
  successes: each.successes,
  not_reported: each.notReported,
  avg_response_time_ms: each.averageMs,
});
const spanJson = (span: Span) => ({ from: iso(span.from), to: iso(span.to) });

export const routes = createRouter();

const read = createRoute({
  ...get("/usage", "getUsage", "Get usage"),
  ...sharesCpu,
  description:
    "Returns the same four figures as the overview, from the same totals. The window ends with the current hour, and is compared to the previous window.",
  tags,
  ...requireScope("usage:read"),
  ...failsWith("not_found"),
  request: { query: z.strictObject({ window: windowQuery, key_id: keyId }) },
  responses: { 200: json(Usage, "The usage figures.") },
});

routes.openapi(read, async (c) => {
  const { window, key_id } = c.req.valid("query");
  const context = await openSnapshot(contextOf(c));
  const [figures, rateLimit] = await Promise.all([
    readUsage(context, { window, keyId: key_id }),
    key_id === undefined ? readHighestUsage(context) : readKeyUsage(context, key_id),
  ]);
  const { totalRequests, successRate, avgResponseTimeMs } = figures;
  return respondJson(
    c,
    {
      as_of: iso(requireAsOf(context)),
      window: spanJson(figures.window),
      previous: spanJson(figures.previous),
      total_requests: { value: totalRequests.value, previous: totalRequests.previous, change_percent: totalRequests.changePercent },
      success_rate: { value: successRate.value, previous: successRate.previous, change_points: successRate.changePoints },
      avg_response_time_ms: { value: avgResponseTimeMs.value, previous: avgResponseTimeMs.previous, change_ms: avgResponseTimeMs.changeMs },
      ...percentilesJson(figures),
      rate_limit: {
        key_id: rateLimit.keyId,
        used: rateLimit.used,
        limit: rateLimit.limit,
        percent: percent(rateLimit.used, rateLimit.limit),
        resets_at: iso(rateLimit.resetsAt),
      },
      by_class: { ...figures.byClass, not_reported: figures.notReported },
      series: figures.series.map((point) => ({ start: iso(point.start), ...countsJson(point), ...percentilesJson(point) })),
    },
    200,
  );
});

const breakdown = createRoute({
  ...get("/usage/breakdown", "getUsageBreakdown", "Get usage by key, route, status or day"),
  ...sharesCpu,
  description:
    "Breaks down the requests that `GET /usage` counts in the same window. The requests of all entries add up to the `total_requests` of the window. Days are in chronological order. Other values are sorted by their number of requests, highest first.",
  tags,
  ...requireScope("usage:read"),
  ...failsWith("not_found"),
  request: {
    query: z.strictObject({
      window: windowQuery,
      by: z.enum(dimensions).meta({ description: "The dimension of the breakdown: `key`, `route`, `status` or `day`.", example: "route" }),
      key_id: keyId,
    }),
  },
  responses: { 200: json(Breakdown, "The breakdown.") },
});

routes.openapi(breakdown, async (c) => {
  const { window: name, by, key_id } = c.req.valid("query");
  if (key_id !== undefined) await requireKey(contextOf(c), key_id);
  const context = await openSnapshot(contextOf(c));
  const { window, shares } = await readBreakdown(context, { window: name, by, keyId: key_id });
  return respondJson(
    c,
    {
      as_of: iso(requireAsOf(context)),
      window: spanJson(window),
      data: shares.map((each) => ({ value: each.value, ...countsJson(each) })),
    },
    200,
  );
});
