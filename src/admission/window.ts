import { hourMs, hourStart } from "../time/clock.ts";

/**
 * The count of one clock hour (UTC) against a persisted reservation. `reserved` is on disk before a request that it
 * covers is answered, so an object that dies counts again from `reserved`: too high by what was unused, never too low.
 */
export interface Window {
  startsAt: number;
  used: number;
  reserved: number;
  /** How much the next reservation adds: 1, 2, 4 .. 64, so that a burst writes seldom and a slow key wastes nothing. */
  block: number;
}

export const largestBlock = 64;

export const openWindow = (startsAt: number): Window => ({ startsAt, used: 0, reserved: 0, block: 1 });

/** What an object that has lost its memory may assume: everything reserved was used. */
export const recoveredWindow = (startsAt: number, reserved: number): Window => ({ startsAt, used: reserved, reserved, block: 1 });

/** The window at `now`. A clock that steps back opens no new one. */
export const windowAt = (window: Window, now: number): Window => (now >= window.startsAt + hourMs ? openWindow(hourStart(now)) : window);

export const resetsAt = (window: Window): number => window.startsAt + hourMs;

/**
 * Counts one request, or answers null where the limit is used up. Where `reserved` of the answer is higher than before, it must be stored
 * before the request is let go.
 */
export function countOne(window: Window, limit: number): Window | null {
  if (window.used >= limit) return null;
  const used = window.used + 1;
  if (used <= window.reserved) return { ...window, used };
  return { ...window, used, reserved: Math.min(window.used + window.block, limit), block: Math.min(window.block * 2, largestBlock) };
}

/** After a silence: what is unused is given back, and growth starts again. */
export const giveBack = (window: Window): Window => ({ ...window, reserved: window.used, block: 1 });
