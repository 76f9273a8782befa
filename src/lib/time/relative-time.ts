import { dayMs, hourMs, minuteMs, secondMs } from "./clock.ts";

// These functions describe a time in words, relative to now. The server renders the words, and the browser updates the words as time
// passes.

const relative = new Intl.RelativeTimeFormat("en");

/** The units of time, largest first. */
export const units = [
  ["day", dayMs],
  ["hour", hourMs],
  ["minute", minuteMs],
  ["second", secondMs],
] as const;

/** Returns how long ago a time was, in words, for example "3 minutes ago". */
export function age(timeMs: number, now: number): string {
  const elapsed = Math.max(0, now - timeMs);
  for (const [unit, length] of units) if (elapsed >= length) return relative.format(-Math.floor(elapsed / length), unit);
  return "just now";
}

/**
 * Returns how far away a future time is, in words, for example "in 3 minutes". If the time has passed or is less than a second away,
 * returns "now".
 */
export function ahead(timeMs: number, now: number): string {
  const left = timeMs - now;
  for (const [unit, length] of units) if (left >= length) return relative.format(Math.round(left / length), unit);
  return "now";
}
