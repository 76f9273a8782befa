import { type SQL, sql } from "drizzle-orm";
import { dayMs, iso } from "../time/clock.ts";
import { twoDecimals } from "./percent.ts";
import type { Refreshed } from "./refresh-roll-ups.ts";
import { daysAndEdges, type Span, type WindowName, windowsAt } from "./windows.ts";

export const dimensions = ["key", "route", "status", "day"] as const;
export type Dimension = (typeof dimensions)[number];

/** The number of requests of one key, route, status or day. `value` is the key's id, the route, the status code or the date. */
export interface Share {
  value: string;
  requests: number;
  successes: number;
  averageMs: number | null;
}

const values: Record<Dimension, SQL> = {
  key: sql`key_id`,
  route: sql`route`,
  status: sql`status`,
  day: sql`start - start % ${sql.raw(String(dayMs))}`,
};

interface Row {
  value: string | number;
  requests: number;
  successes: number;
  admitted: number;
  durationMs: number;
}

/**
 * Returns the requests of a window, grouped by one dimension. If `span` is "previous", returns the requests of the window before it. The
 * sum of the shares is the total of the window. Days are in chronological order. All other groups are sorted by number of requests, highest
 * first.
 */
export async function readBreakdown(
  { activity, actor, now }: Refreshed,
  {
    window: name,
    by,
    keyId,
    span = "window",
  }: { window: WindowName; by: Dimension; keyId?: string | undefined; span?: "window" | "previous" },
): Promise<{ window: Span; shares: Share[] }> {
  const window = windowsAt(name, now)[span];
  const { days, edges } = daysAndEdges(window);
  const within = ({ from, to }: Span) => sql`(start >= ${from} AND start < ${to})`;
  const rowsOf = (
    table: string,
    spans: Span[],
  ) => sql`SELECT start, key_id, route, status, requests, admitted, duration_ms FROM ${sql.raw(table)}
    WHERE account_id = ${actor.accountId} AND (${sql.join(spans.map(within), sql.raw(" OR "))})`;
  const rows =
    await activity.all<Row>(sql`SELECT ${values[by]} AS value, sum(requests) AS requests, sum(iif(status < 400, requests, 0)) AS successes,
      sum(admitted) AS admitted, sum(duration_ms) AS durationMs
    FROM (${rowsOf("usage_days", [days])} UNION ALL ${rowsOf("usage_hours", edges)})
    ${keyId === undefined ? sql`` : sql`WHERE key_id = ${keyId}`}
    GROUP BY value ORDER BY ${by === "day" ? sql`value` : sql`requests DESC, value`}`);
  const shares = rows.map((row) => ({
    value: by === "day" ? iso(Number(row.value)).slice(0, 10) : String(row.value),
    requests: row.requests,
    successes: row.successes,
    averageMs: row.admitted === 0 ? null : twoDecimals(row.durationMs / row.admitted),
  }));
  return { window, shares };
}
