import { dayMs, dayStart, hourMs, hourStart } from "../time/clock.ts";

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
