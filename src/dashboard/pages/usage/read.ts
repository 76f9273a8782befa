import { readAccountLimits } from "../../../admission/account-limits.ts";
import { highestOf, nearestLimit, readKeyUsage, readLiveUsages } from "../../../admission/rate-limit-usage.ts";
import { readKeyRow } from "../../../keys/read-keys.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../../lib/time/clock.ts";
import { listActivity } from "../../../log/read/read-activity.ts";
import { busiestOf, readHours } from "../../../usage/hours.ts";
import { readCells } from "../../../usage/read-breakdown.ts";
import { readSeries, readUsage } from "../../../usage/read-usage.ts";
import type { UsageSnapshot } from "../../../usage/usage-snapshot.ts";
import { requireAsOf } from "../../../usage/usage-snapshot.ts";
import { type Covered, type Span, spansAt, stepOf, type WindowName, windowHours } from "../../../usage/windows.ts";
import { chartOf } from "../../components/requests-chart.tsx";
import type { PageContext } from "../../context.ts";
import { readKeyChoices } from "../../key-choices.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { readDifference } from "../../read-difference.ts";
import { queryIn } from "../activity/query.ts";

const entriesShown = 10;

export const windows = Object.keys(windowHours) as WindowName[];
export const windowOf = (c: PageContext): WindowName => windows.find((name) => name === c.req.query("window")) ?? "30d";

/** The longest time that a span may lie in the past. */
const longestAgoMs = 400 * dayMs;

/** Returns the span in the query, rounded to whole hours. Returns null if there is none, or if it is not a span of the past. */
export function selectedIn(c: PageContext, now: number): Span | null {
  const { from: first, to: last } = queryIn(c).query;
  if (first === undefined || last === undefined) return null;
  const from = Math.max(hourStart(first), hourStart(now - longestAgoMs));
  const to = Math.min(hourStart(last + hourMs - 1), hourStart(now) + hourMs);
  return from < to ? { from, to } : null;
}

/** Returns the chart around a selected span: the hours of its days if it is short, and else the days of the span. */
async function readSeriesAround(context: UsageSnapshot, selected: Span, keyId: string | undefined) {
  const covered = { from: dayStart(selected.from), to: Math.min(dayStart(selected.to + dayMs - 1), hourStart(context.now) + hourMs) };
  const stepMs = stepOf(covered);
  const { previous } = spansAt(covered, context.now);
  const [series, earlier] = await Promise.all([readSeries(context, covered, stepMs, keyId), readSeries(context, previous, stepMs, keyId)]);
  return { series, stepMs, covered, earlier: { series: earlier, ms: covered.from - previous.from } };
}

/** Reads what the page of usage shows. */
export async function readUsagePage(c: PageContext) {
  const window = windowOf(c);
  const context = await snapshotContext(c);
  const { now } = context;
  const selected = selectedIn(c, now);
  const covered: Covered = selected ?? window;
  const spans = spansAt(covered, now);
  const keyId = c.req.query("key_id") || undefined;
  const key = keyId === undefined ? null : await readKeyRow(context, keyId);
  const [usage, usages, shared, keys, hours, cells, formerCells, around, log] = await Promise.all([
    readUsage(context, { window: covered, keyId }),
    // If a guard does not respond, only the rate-limit figure is missing.
    (keyId === undefined ? readLiveUsages(context) : readKeyUsage(context, keyId).then((ofKey) => [ofKey])).catch(() => null),
    readAccountLimits(contextOf(c)).catch(() => null),
    readKeyChoices(context),
    readHours(context, { window: covered, keyId }),
    readCells(context, spans.window, keyId),
    readCells(context, spans.previous, keyId),
    selected && readSeriesAround(context, selected, keyId),
    selected && listActivity(context, { filter: { ...selected, keyId }, limit: entriesShown }).catch(() => null),
  ]);
  const figures = {
    usage,
    highest: usages && highestOf(usages, now),
    nearest: nearestLimit(usages ?? [], shared?.limits ?? []),
    busiest: busiestOf(hours),
  };
  const chart = around ?? chartOf(usage, window);
  const change = await readDifference(context, spans.window, cells, formerCells);
  const asOf = requireAsOf(context);
  return { now, asOf, window, selected, spans, keyId, key, keys, cells, formerCells, log, chart, figures, change };
}
