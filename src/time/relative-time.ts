import { dayMs, hourMs, minuteMs, secondMs } from "./clock.ts";

// These functions describe a time relative to now in words. The server renders the words, and the browser updates them as time passes.

const relative = new Intl.RelativeTimeFormat("en");

/** The units of time, largest first. */
export const units = [
  ["day", dayMs],
  ["hour", hourMs],
  ["minute", minuteMs],
  ["second", secondMs],
] as const;

/** Returns the age of a past time in words, for example "3 minutes ago". */
export function age(timeMs: number, now: number): string {
  const elapsed = Math.max(0, now - timeMs);
  for (const [unit, length] of units) if (elapsed >= length) return relative.format(-Math.floor(elapsed / length), unit);
  return "just now";
}

/**
 * Returns the time until a future time in words, for example "in 3 minutes". Returns "now" for a time that is less than a second ahead or has passed.
 */
export function ahead(timeMs: number, now: number): string {
  const left = timeMs - now;
  for (const [unit, length] of units) if (left >= length) return relative.format(Math.round(left / length), unit);
  return "now";
}
