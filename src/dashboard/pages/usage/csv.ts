import { Hono } from "hono";
import { readKeyRow } from "../../../keys/read-keys.ts";
import { iso } from "../../../lib/time/clock.ts";
import type { SeriesPoint } from "../../../usage/read-usage.ts";
import { readUsage } from "../../../usage/read-usage.ts";
import { requireLatest } from "../../../usage/usage-snapshot.ts";
import { needs } from "../../access/needs.ts";
import type { PageEnv } from "../../context.ts";
import { csvHeaders, csvOf } from "../../csv.ts";
import { snapshotContext } from "../../operation-contexts.ts";
import { selectedIn, windowOf } from "./read.ts";

/** The figures of the page as a file: a row for each bar of its chart. */
export const usageCsv = new Hono<PageEnv>().get("/usage.csv", needs("session"), async (c) => {
  const context = await snapshotContext(c);
  requireLatest(context);
  const keyId = c.req.query("key_id") || undefined;
  if (keyId !== undefined) await readKeyRow(context, keyId);
  const { series } = await readUsage(context, { window: selectedIn(c, context.now) ?? windowOf(c), keyId });
  const csv = await csvOf<SeriesPoint>(
    {
      start: (point) => iso(point.start),
      requests: (point) => point.requests,
      successes: (point) => point.successes,
      not_reported: (point) => point.notReported,
      avg_response_time_ms: (point) => point.averageMs,
      p50_ms: (point) => point.p50Ms,
      p95_ms: (point) => point.p95Ms,
      p99_ms: (point) => point.p99Ms,
    },
    series,
  );
  return c.body(csv, 200, csvHeaders("usage", true));
});
