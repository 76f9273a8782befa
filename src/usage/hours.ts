import { dayMs, hourMs } from "../time/clock.ts";
import { requestsOf, statusTotalsOf } from "./figures.ts";
import type { OpenedLog } from "./open-log.ts";
import { readPeriods } from "./read-periods.ts";
import { type Covered, spansAt } from "./windows.ts";

/** The number of requests in the UTC hour that starts at `start`. */
export interface Hour {
  start: number;
  requests: number;
}

/**
 * Returns the hours with requests in a window, for the account or for one of its keys. The sum of the requests in these hours is the total
 * of the window.
 */
export async function readHours(
  context: OpenedLog,
  { window: covered, keyId }: { window: Covered; keyId?: string | undefined },
): Promise<Hour[]> {
  const { window } = spansAt(covered, context.now);
  const keys = keyId === undefined ? "none" : { id: keyId };
  const [hours = []] = await readPeriods(context, [{ by: "hour", spans: [window], keys }]);
  return hours.map(({ start, totals }) => ({ start, requests: requestsOf(statusTotalsOf(totals)) })).filter(({ requests }) => requests > 0);
}

/** 1 January 1970 was a Thursday, three days after a Monday. */
const daysFromMonday = 3;

/**
 * Returns the number of requests for each UTC weekday and each hour of the day. The result has seven lists of 24 numbers. The first list is
 * for Monday.
 */
export function weekOf(hours: readonly Hour[]): number[][] {
  const week = Array.from({ length: 7 }, () => Array<number>(24).fill(0));
  for (const { start, requests } of hours) {
    const day = week[(Math.floor(start / dayMs) + daysFromMonday) % 7] as number[];
    const hour = Math.floor((start % dayMs) / hourMs);
    day[hour] = (day[hour] ?? 0) + requests;
  }
  return week;
}

/**
 * Returns the hour with the most requests. If several hours share the maximum, returns the latest of them. If `hours` is empty, returns
 * null.
 */
export const busiestOf = (hours: readonly Hour[]): Hour | null =>
  hours.toSorted((a, b) => b.requests - a.requests || b.start - a.start)[0] ?? null;
