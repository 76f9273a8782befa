import { dayMs, hourMs, minuteMs, secondMs } from "../time/clock.ts";

/** After the first attempt, which comes at once: how long each further one waits for the one before to have failed. */
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

/** A webhook is sent what has piled up for it at this pace, so that its receiver is not flooded. */
export const paceMs = secondMs / 5;
/** A delivery due within this time is enqueued at once; the sweep finds the others. */
export const soonMs = 15 * minuteMs;

export const maxAttempts = delaysMs.length + 1;

/**
 * When to try again after the failed attempt number `attempts` (1, 2 ..), in milliseconds since the epoch; null where that
 * was the last. `random`: 0 to 1. `retryAfterMs`: what the receiver asked for; it is waited for, but no longer than a day.
 */
export function nextAttemptAt(attempts: number, now: number, random: number, retryAfterMs: number | null): number | null {
  const delayMs = delaysMs[attempts - 1];
  if (delayMs === undefined) return null;
  const jittered = Math.round(delayMs * (1 - jitter + 2 * jitter * random));
  return now + Math.max(jittered, Math.min(retryAfterMs ?? 0, maxRetryAfterMs));
}

/**
 * About when the attempts after the next one would be made, should each fail: in milliseconds since the epoch, without what is random in it.
 * `attempts`: how many were made.
 */
export function attemptsAfter(attempts: number, nextAt: number): number[] {
  let at = nextAt;
  return delaysMs.slice(attempts).map((delayMs) => (at += delayMs));
}

/** The three forms of a date that a receiver may send (RFC 9110, 5.6.7), all in UTC. */
const httpDate = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /;

/** The milliseconds that a Retry-After asks for (RFC 9110, 10.2.3), seconds or a date. Null where there is none or it says nothing. */
export function retryAfterMsOf(header: string | null, now: number): number | null {
  const text = header?.trim() ?? "";
  const ms = /^\d+$/.test(text) ? Number(text) * secondMs : httpDate.test(text) ? Date.parse(text) - now : Number.NaN;
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}
