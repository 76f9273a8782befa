import { secondMs } from "../time/clock.ts";
import { percent } from "../usage/percent.ts";

const whole = new Intl.NumberFormat("en");
const month = new Intl.DateTimeFormat("en-US", { month: "short", timeZone: "UTC" });

export const dash = "–";

export const integer = (value: number): string => whole.format(value);

/** Milliseconds as people read them: whole, with one decimal below ten. */
export const milliseconds = (value: number | null): string =>
  value === null ? dash : `${value < 10 ? value.toFixed(1) : whole.format(Math.round(value))} ms`;

/** Milliseconds with a decimal, as a change of them is shown: so that what is now, what was and the change add up. */
export const exactMilliseconds = (value: number | null): string =>
  value === null ? dash : `${value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} ms`;

/** A rate that has two decimals already: only a whole is shown as 100 %. */
export const rate = (value: number | null): string => (value === null ? dash : value === 100 ? "100%" : `${value.toFixed(2)}%`);

/** The share that a part has of a whole, in percent: what is there is never shown as nothing. */
export function share(part: number, whole: number): string {
  const value = percent(part, whole);
  return part > 0 && value === 0 ? "<0.01%" : rate(value);
}

/** A percentage without decimals; only a whole is shown as 100 %. */
export const wholePercent = (value: number): string => `${value >= 100 ? 100 : Math.min(Math.round(value), 99)}%`;

/** A change with its sign, in a typographer's minus. */
export const signed = (value: number, decimals: number): string => {
  const magnitude = Math.abs(value).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${magnitude}`;
};

/** "22 Sep to 21 Oct UTC": the days that a span touches. */
export const daysOf = ({ from, to }: { from: number; to: number }): string => `${day(from)} to ${day(to - 1)} UTC`;

const day = (timeMs: number) => `${new Date(timeMs).getUTCDate()} ${month.format(timeMs)}`;

const seconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC" });

/** "22 Nov 2026, 12:04:31 UTC". */
export const moment = (timeMs: number): string => `${day(timeMs)} ${new Date(timeMs).getUTCFullYear()}, ${seconds.format(timeMs)} UTC`;

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

/** "12:04 UTC". */
export const timeOfDay = (timeMs: number): string => `${clock.format(timeMs)} UTC`;

/** "22 Nov" of a day, "12:00" of an hour: the name of a bar. */
export const barName = (timeMs: number, window: string): string =>
  window === "24h" ? clock.format(timeMs) : `${new Date(timeMs).getUTCDate()} ${month.format(timeMs)}`;

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** "12.4K": where there is no room for all of a number, which stands nearby in full. */
export const short = (value: number): string => compact.format(value);

/** "1 request", "2 requests". */
export const counted = (count: number, one: string, several = `${one}s`): string => `${whole.format(count)} ${count === 1 ? one : several}`;

/** "mm:ss" of what is left until then. */
export function countdown(timeMs: number, now: number): string {
  const seconds = Math.max(0, Math.ceil((timeMs - now) / secondMs));
  return `${String(Math.floor(seconds / 60)).padStart(2, "0")}:${String(seconds % 60).padStart(2, "0")}`;
}
