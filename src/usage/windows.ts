import { dayMs, dayStart, hourMs, hourStart } from "../lib/time/clock.ts";

/** A span of time in milliseconds since the epoch. `from` is inclusive and `to` is exclusive. */
export interface Span {
  from: number;
  to: number;
}

export const windowHours = { "24h": 24, "7d": 7 * 24, "30d": 30 * 24 } as const;
export type WindowName = keyof typeof windowHours;

/** Returns the window that ends with the current hour, and the window of the same length before it. */
export function usageWindowsAt(name: WindowName, now: number): { window: Span; previous: Span } {
  const length = windowHours[name] * hourMs;
  const to = hourStart(now) + hourMs;
  return { window: { from: to - length, to }, previous: { from: to - 2 * length, to: to - length } };
}

/** The time that figures cover: a window that ends with the current hour, or a span of whole hours. */
export type Covered = WindowName | Span;

const weekMs = 7 * dayMs;
/** The length up to which a span is shown by hour, in milliseconds. */
const maxByHourMs = 3 * dayMs;

/** Returns the covered span, and the span that it is compared with. Traffic follows the week, so a span is compared with the same weekdays before it. */
export function spansAt(covered: Covered, now: number): { window: Span; previous: Span } {
  if (typeof covered === "string") return usageWindowsAt(covered, now);
  const apart = Math.ceil((covered.to - covered.from) / weekMs) * weekMs;
  return { window: covered, previous: { from: covered.from - apart, to: covered.to - apart } };
}

/** Returns the length of one bar in a chart of the covered time: an hour or a day, in milliseconds. */
export function stepOf(covered: Covered): number {
  if (typeof covered === "string") return covered === "24h" ? hourMs : dayMs;
  return covered.to - covered.from <= maxByHourMs ? hourMs : dayMs;
}

/** Splits a span of whole hours into three parts: the whole UTC days, the hours before these days, and the hours after these days. */
export function daysAndEdges(span: Span): { days: Span; edges: [Span, Span] } {
  const firstDay = dayStart(span.from + dayMs - 1);
  const lastDay = dayStart(span.to);
  if (firstDay >= lastDay) return { days: { from: span.from, to: span.from }, edges: [span, { from: span.to, to: span.to }] };
  return {
    days: { from: firstDay, to: lastDay },
    edges: [
      { from: span.from, to: firstDay },
      { from: lastDay, to: span.to },
    ],
  };
}
