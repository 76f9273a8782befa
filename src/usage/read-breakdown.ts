import { and, asc, desc, eq, gte, lt, type SQL, sql } from "drizzle-orm";
import { iso } from "../clock.ts";
import { usageDays } from "../db/schema.ts";
import { twoDecimals } from "../percent.ts";
import type { UpToDate } from "./refresh-roll-ups.ts";
import { type Span, wholeDaysAt } from "./windows.ts";

export const dimensions = ["key", "route", "status", "day"] as const;
export type Dimension = (typeof dimensions)[number];

/** What one key, route, status or day had. `value` is its id, path, number or date. */
export interface Share {
  value: string;
  requests: number;
  successes: number;
  averageMs: number | null;
}

const columns = { key: usageDays.keyId, route: usageDays.route, status: usageDays.status, day: usageDays.start };

/** Requests of the last 30 UTC days, today included, by one dimension: days in order, the others with the most requests first. */
export async function readBreakdown(
  { db, actor, now }: UpToDate,
  { by, keyId }: { by: Dimension; keyId?: string | undefined },
): Promise<{ window: Span; shares: Share[] }> {
  const window = wholeDaysAt(now);
  const column: SQL<string | number> = sql`${columns[by]}`;
  const requests = sql<number>`sum(${usageDays.requests})`;
  const rows = await db
    .select({
      value: column,
      requests,
      successes: sql<number>`sum(CASE WHEN ${usageDays.status} < 400 THEN ${usageDays.requests} ELSE 0 END)`,
      admitted: sql<number>`sum(${usageDays.admitted})`,
      durationMs: sql<number>`sum(${usageDays.durationMs})`,
    })
    .from(usageDays)
    .where(
      and(
        eq(usageDays.accountId, actor.accountId),
        gte(usageDays.start, window.from),
        lt(usageDays.start, window.to),
        keyId === undefined ? undefined : eq(usageDays.keyId, keyId),
      ),
    )
    .groupBy(column)
    .orderBy(by === "day" ? asc(column) : desc(requests), asc(column));
  const shares = rows.map((row) => ({
    value: by === "day" ? iso(Number(row.value)).slice(0, 10) : String(row.value),
    requests: row.requests,
    successes: row.successes,
    averageMs: row.admitted === 0 ? null : twoDecimals(row.durationMs / row.admitted),
  }));
  return { window, shares };
}
