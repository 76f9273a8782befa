import { dayMs, dayStart } from "../../lib/time/clock.ts";

export const intervals = ["day", "week", "month"] as const;
export type Interval = (typeof intervals)[number];

/**
 * Returns the start of the bucket that contains `timeMs`, in milliseconds since the epoch. A bucket is a day, an ISO week (from Monday) or a
 * month, in UTC.
 */
export function bucketStart(timeMs: number, interval: Interval): number {
  const day = dayStart(timeMs);
  if (interval === "day") return day;
  const date = new Date(day);
  if (interval === "month") return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1);
  return day - ((date.getUTCDay() + 6) % 7) * dayMs;
}

/** Returns the start times of all buckets that overlap the span from `from` to `to`, in ascending order. `from` must be earlier than `to`. */
export function bucketsOf(from: number, to: number, interval: Interval): number[] {
  const starts: number[] = [];
  const maxPointMs = { day: dayMs, week: 7 * dayMs, month: 31 * dayMs }[interval];
  for (let start = bucketStart(from, interval); start < to; start = bucketStart(start + maxPointMs, interval)) starts.push(start);
  return starts;
}
