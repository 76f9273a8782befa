import { dayMs, hourMs, minuteMs, secondMs } from "./clock.ts";

// Times relative to now, in words: said by the server, and said again by the browser as the clock goes on.

const relative = new Intl.RelativeTimeFormat("en");

/** Units of time, the largest first. */
export const units = [
  ["day", dayMs],
  ["hour", hourMs],
  ["minute", minuteMs],
  ["second", secondMs],
] as const;

/** "3 minutes ago". */
export function age(timeMs: number, now: number): string {
  const elapsed = Math.max(0, now - timeMs);
  for (const [unit, length] of units) if (elapsed >= length) return relative.format(-Math.floor(elapsed / length), unit);
  return "just now";
}

/** "in 3 minutes"; "now" for what is due or past. */
export function ahead(timeMs: number, now: number): string {
  const left = timeMs - now;
  for (const [unit, length] of units) if (left >= length) return relative.format(Math.round(left / length), unit);
  return "now";
}
