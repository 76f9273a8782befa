import { dayMs, hourMs, minuteMs, secondMs } from "../../lib/time/clock.ts";

/** The delays after the failed attempts of a delivery, in order, in milliseconds. The first attempt is made immediately. */
export const delaysMs = [
  5 * secondMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
];
export const jitter = 0.2;
export const maxRetryAfterMs = dayMs;

/** The time between two deliveries of a redelivery, in milliseconds. Without this pace, a large redelivery could flood the receiver. */
export const paceMs = secondMs / 5;
/**
 * If a delivery is due within this time, in milliseconds, the delivery is enqueued immediately. If a delivery is due later, the sweep
 * enqueues it.
 */
export const soonMs = 15 * minuteMs;

export const maxAttempts = delaysMs.length + 1;

/**
 * Returns the time of the attempt that follows a failed attempt, in milliseconds since the epoch. Returns null after the last attempt.
 * `attempts`: the number of attempts made so far, including the failed attempt. `random`: a number from 0 to 1, for the jitter.
 * `retryAfterMs`: the delay that the receiver requested. A delay of more than one day counts as one day.
 */
export function nextAttemptAt(attempts: number, now: number, random: number, retryAfterMs: number | null): number | null {
  const delayMs = delaysMs[attempts - 1];
  if (delayMs === undefined) return null;
  const jittered = Math.round(delayMs * (1 - jitter + 2 * jitter * random));
  return now + Math.max(jittered, Math.min(retryAfterMs ?? 0, maxRetryAfterMs));
}

/**
 * Returns the approximate times of all attempts after the next attempt, in milliseconds since the epoch. Assumes that each attempt fails,
 * and ignores jitter. `attempts`: the number of attempts made so far.
 */
export function attemptsAfter(attempts: number, nextAt: number): number[] {
  let at = nextAt;
  return delaysMs.slice(attempts).map((delayMs) => (at += delayMs));
}

/**
 * Matches the start of a date in any of the three formats that a receiver may send (RFC 9110, 5.6.7). Dates in these formats are in UTC.
 */
const httpDate = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /;

/**
 * Returns the delay that a `Retry-After` header requests (RFC 9110, 10.2.3), in milliseconds. The header contains a number of seconds, or a
 * date. Returns null if the header is missing or invalid.
 */
export function retryAfterMsOf(header: string | null, now: number): number | null {
  const text = header?.trim() ?? "";
  const ms = /^\d+$/.test(text) ? Number(text) * secondMs : httpDate.test(text) ? Date.parse(text) - now : Number.NaN;
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}
