import { dayMs, dayStart, hourMs, minuteMs } from "../../../lib/time/clock.ts";
import type { ActivityQuery } from "./query.ts";

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
