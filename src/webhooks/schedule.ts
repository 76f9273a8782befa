import { dayMs, hourMs, minuteMs, secondMs } from "../clock.ts";

/** After the first attempt, which comes at once: how long each further one waits for the one before to have failed. */
const delaysMs = [5 * secondMs, 5 * minuteMs, 30 * minuteMs, 2 * hourMs, 5 * hourMs, 10 * hourMs, 14 * hourMs, 20 * hourMs, 24 * hourMs];
const jitter = 0.2;
const longestRetryAfterMs = dayMs;

export const mostAttempts = delaysMs.length + 1;

/**
 * When to try again after the failed attempt number `attempts` (1, 2 ..), in milliseconds since the epoch; null where that
 * was the last. `random`: 0 to 1. `retryAfterMs`: what the receiver asked for; it is waited for, but no longer than a day.
 */
export function nextAttemptAt(attempts: number, now: number, random: number, retryAfterMs: number | null): number | null {
  const delayMs = delaysMs[attempts - 1];
  if (delayMs === undefined) return null;
  const jittered = Math.round(delayMs * (1 - jitter + 2 * jitter * random));
  return now + Math.max(jittered, Math.min(retryAfterMs ?? 0, longestRetryAfterMs));
}

const monthNames = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec";
/** The form that senders must use (RFC 9110, 5.6.7). */
const httpDate = new RegExp(`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \\d{2} (?:${monthNames}) \\d{4} \\d{2}:\\d{2}:\\d{2} GMT$`);

/** The milliseconds that a Retry-After asks for (RFC 9110, 10.2.3): seconds or a date. Null where there is none or it says nothing. */
export function retryAfterMsOf(header: string | null, now: number): number | null {
  const text = header?.trim() ?? "";
  if (/^\d{1,10}$/.test(text)) return Number(text) * secondMs;
  return httpDate.test(text) ? Math.max(0, Date.parse(text) - now) : null;
}
