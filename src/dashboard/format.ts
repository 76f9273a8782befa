import { dayMs, secondMs } from "../lib/time/clock.ts";
import { day, hourName } from "../lib/time/moments.ts";
import { percent } from "../usage/percent.ts";

const whole = new Intl.NumberFormat("en");

export const dash = "–";

export const integer = (value: number): string => whole.format(value);

/** Formats milliseconds as a whole number, or with one decimal below 10 ms. */
export const milliseconds = (value: number | null): string =>
  value === null ? dash : `${value < 10 ? value.toFixed(1) : whole.format(Math.round(value))} ms`;

/** Formats a duration from the log as whole milliseconds. */
export const duration = (value: number | null): string => (value === null ? "not reported" : `${integer(value)} ms`);

/** Formats milliseconds with one decimal. Changes have the same precision, so two values and the change between them add up. */
export const exactMilliseconds = (value: number | null): string =>
  value === null ? dash : `${value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} ms`;

/** Formats a percentage that is already rounded to two decimals. Only exactly 100 is shown as 100%. */
export const rate = (value: number | null): string => (value === null ? dash : value === 100 ? "100%" : `${value.toFixed(2)}%`);

/** Formats a part of a whole as a percentage. A share above zero is never shown as zero. */
export function share(part: number, whole: number): string {
  const value = percent(part, whole);
  return part > 0 && value === 0 ? "<0.01%" : rate(value);
}

/** Formats a percentage without decimals. A value below 100 is never shown as 100%. */
export const wholePercent = (value: number): string => `${value >= 100 ? 100 : Math.min(Math.round(value), 99)}%`;

/** Formats a change with its sign. A negative number gets a typographic minus (U+2212). */
export const signed = (value: number, decimals: number): string => {
  const magnitude = Math.abs(value).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${magnitude}`;
};

/** Formats the first and last day of a time span, for example "22 Sep to 21 Oct UTC". */
export const daysOf = ({ from, to }: { from: number; to: number }): string => `${day(from)} to ${day(to - 1)} UTC`;

/** Returns the label of a bar in a chart (UTC): "22 Nov" for a day or "22 Nov 12:00" for an hour. */
export const barTime = (timeMs: number, stepMs: number): string => (stepMs === dayMs ? day(timeMs) : `${day(timeMs)} ${hourName(timeMs)}`);

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Formats a span of whole hours (UTC): "26 Nov 12:00 to 13:00", "26 Nov", or "24 Nov to 26 Nov". */
export function spanOf({ from, to }: { from: number; to: number }): string {
  if (from % dayMs === 0 && to % dayMs === 0) return to - from === dayMs ? day(from) : `${day(from)} to ${day(to - 1)}`;
  const end =
    to - from <= dayMs && (day(from) === day(to) || to % dayMs === 0)
      ? hourName(to).replace(/^00:00$/, "24:00")
      : `${day(to)} ${hourName(to)}`;
  return `${day(from)} ${hourName(from)} to ${end}`;
}

/** Formats milliseconds for an axis, for example "80 ms" or "1.5 s". */
export const shortTime = (ms: number): string => (ms < secondMs ? `${Math.round(ms)} ms` : `${compact.format(ms / secondMs)} s`);

/** Formats a number in compact form, for example "12.4K". The page must also show the full number near the compact form. */
export const short = (value: number): string => compact.format(value);

/** Formats a count with its noun, for example "1 request" or "2 requests". */
export const counted = (count: number, one: string, several = `${one}s`): string => `${whole.format(count)} ${count === 1 ? one : several}`;

/** Formats the time from `now` until `timeMs` as "mm:ss". */
export function countdown(timeMs: number, now: number): string {
  const seconds = Math.max(0, Math.ceil((timeMs - now) / secondMs));
  return `${String(Math.floor(seconds / 60)).padStart(2, "0")}:${String(seconds % 60).padStart(2, "0")}`;
}
