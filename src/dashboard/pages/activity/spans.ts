import { dayMs, dayStart, hourMs, hourStart, minuteMs } from "../../../lib/time/clock.ts";
import { type Span, usageWindowsAt } from "../../../usage/windows.ts";
import type { ActivityQuery } from "./query.ts";

// The spans of time on the page of the request log: those that a reader can choose, and those that the bars above the list show.

/** The longest span that has a bar for each hour. A longer span has a bar for each day. */
const maxHourlyMs = 2 * dayMs;
const maxSpanMs = 62 * dayMs;

/** Returns the length of a bar of a span: an hour or a day. */
export const stepOfBars = ({ from, to }: Span): number => (to - from <= maxHourlyMs ? hourMs : dayMs);

/** The span of the bars if the list goes back further than a day, and no time was chosen. */
export const lastMonth = (now: number): Span => usageWindowsAt("30d", now).window;

/**
 * Returns the span of the bars in whole hours: the span of the filter, or the last 24 hours. With another filter, the first page of the list can go back for
 * weeks, so the bars show the last 30 days.
 */
export function spanOfBars({ from, to, ...others }: ActivityQuery, now: number): Span {
  if (from === undefined && to === undefined && Object.values(others).some((value) => value !== undefined)) return lastMonth(now);
  const end = Math.min(hourStart((to ?? now) + hourMs - 1), hourStart(now) + hourMs);
  const start = from === undefined ? end - dayMs : hourStart(from);
  return { from: Math.max(start, end - maxSpanMs), to: Math.max(end, start + hourMs) };
}

/** A shorter span is shown in the 24 hours around it, because one or two bars say nothing. */
const minSpanMs = dayMs / 2;

/** Returns the span of the bars for the span of the list. A span of the last 24 hours does not move the bars, so a reader can select in them again. */
export function around({ from, to }: Span, now: number): Span {
  if (to - from >= minSpanMs) return { from, to };
  const end = hourStart(now) + hourMs;
  const start = from >= end - dayMs ? end - dayMs : hourStart((from + to - dayMs) / 2);
  return { from: start, to: start + dayMs };
}

/** The spans of time that the reader can choose with one click. */
export const ranges = (now: number): readonly (readonly [name: string, from: number, to: number | undefined])[] => [
  ["Last hour", now - hourMs, undefined],
  ["Today", dayStart(now), undefined],
  ["Yesterday", dayStart(now) - dayMs, dayStart(now)],
  ["7 days", now - 7 * dayMs, undefined],
];

/** The link to a span of time stays marked for as long as its page is at most this old, in milliseconds. */
const chosenForMs = 2 * minuteMs;
export const isChosen = (query: ActivityQuery, from: number, to: number | undefined): boolean =>
  query.from !== undefined && Math.abs(query.from - from) < chosenForMs && query.to === to;
