import { and, eq, gte, lt, or, type SQL, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/sqlite-core";
import type { Reading } from "../accounts/actor.ts";
import { dayMs, dayStart, hourMs } from "../clock.ts";
import { type Db, raw } from "../db/client.ts";
import { usageDays, usageHours } from "../db/schema.ts";
import { type Figures, figuresOf, isSuccess, type Tally } from "./figures.ts";
import { foldMarks } from "./fold-marks.ts";
import { daysAndEdges, type Span, type WindowName, windowsAt } from "./windows.ts";

/** One bar of the chart. `start`: the UTC hour or day that it stands for, which the window may hold in part. */
export interface SeriesPoint {
  start: number;
  requests: number;
  successes: number;
}

export interface Usage extends Figures {
  window: Span;
  previous: Span;
  series: SeriesPoint[];
}

type RollUp = typeof usageHours | typeof usageDays;
interface TallyAt extends Tally {
  start: number;
}

/** The figures of an account, or of one of its keys, over a window and against the window before it. */
export async function readUsage(
  { db, actor, now }: Reading,
  { window: name, keyId }: { window: WindowName; keyId?: string | undefined },
): Promise<Usage> {
  await foldMarks(db, actor.accountId);
  const { window, previous } = windowsAt(name, now);
  const of = (table: RollUp, ...spans: Span[]) =>
    and(
      eq(table.accountId, actor.accountId),
      or(...spans.filter(({ from, to }) => from < to).map(({ from, to }) => and(gte(table.start, from), lt(table.start, to)))) ??
        sql`false`,
      keyId === undefined ? undefined : eq(table.keyId, keyId),
    );
  const inParts = (span: Span) => {
    const { days, edges } = daysAndEdges(span);
    return { days: of(usageDays, days), hours: of(usageHours, ...edges) };
  };
  const parts = inParts(window);
  const formerParts = inParts(previous);
  const byHour = name === "24h";

  const [current, former, durations] = await db.batch([
    byHour
      ? tallies(db, usageHours, of(usageHours, window))
      : unionAll(tallies(db, usageDays, parts.days), tallies(db, usageHours, parts.hours)),
    unionAll(tallies(db, usageDays, formerParts.days), tallies(db, usageHours, formerParts.hours)),
    raw<{ duration: string; requests: number }>(
      db,
      sql`SELECT bucket.key AS duration, sum(bucket.value) AS requests FROM (
        SELECT histogram FROM usage_days WHERE ${parts.days} UNION ALL SELECT histogram FROM usage_hours WHERE ${parts.hours}
      ) AS parts, json_each(parts.histogram) AS bucket GROUP BY bucket.key`,
    ),
  ]);
  const histogram = new Map(durations.map(({ duration, requests }) => [Number(duration), requests]));
  const series = byHour ? seriesOf(current, window.from, window.to, hourMs) : seriesOf(current, dayStart(window.from), window.to, dayMs);
  return { window, previous, ...figuresOf(current, former, histogram), series };
}

/** Sums by status and by the hour or day of the row. */
const tallies = (db: Db, table: RollUp, where: SQL | undefined) =>
  db
    .select({
      start: sql<number>`${table.start}`.as("start"),
      status: sql<number>`${table.status}`.as("status"),
      requests: sql<number>`sum(${table.requests})`.as("requests"),
      admitted: sql<number>`sum(${table.admitted})`.as("admitted"),
      durationMs: sql<number>`sum(${table.durationMs})`.as("duration_ms"),
    })
    .from(table)
    .where(where)
    .groupBy(table.start, table.status);

function seriesOf(tallies: readonly TallyAt[], from: number, to: number, stepMs: number): SeriesPoint[] {
  const points: SeriesPoint[] = [];
  for (let start = from; start < to; start += stepMs) points.push({ start, requests: 0, successes: 0 });
  for (const tally of tallies) {
    const point = points[Math.floor((tally.start - from) / stepMs)];
    if (!point) continue;
    point.requests += tally.requests;
    if (isSuccess(tally.status)) point.successes += tally.requests;
  }
  return points;
}
