import { hourMs, hourStart } from "../time/clock.ts";

/**
 * The request count of one UTC clock hour, with a reservation on disk. The guard stores `reserved` on disk before it responds to any request that the
 * reservation covers. An object that dies therefore resumes counting from `reserved`. The resumed count can be too high by the unused part of the
 * reservation, but never too low.
 */
export interface Window {
  startsAt: number;
  used: number;
  reserved: number;
  /**
   * The number of requests that the next reservation adds: 1, 2, 4 and so on, up to 64. Bursts therefore need few writes, and slow keys waste no
   * requests.
   */
  block: number;
}

export const largestBlock = 64;

export const openWindow = (startsAt: number): Window => ({ startsAt, used: 0, reserved: 0, block: 1 });

/** Returns the window of an object that has lost its state in memory. The whole reservation counts as used. */
export const recoveredWindow = (startsAt: number, reserved: number): Window => ({ startsAt, used: reserved, reserved, block: 1 });

/** Returns the window at `now`. If the clock is set back, the window stays the same. */
export const windowAt = (window: Window, now: number): Window => (now >= window.startsAt + hourMs ? openWindow(hourStart(now)) : window);

export const resetsAt = (window: Window): number => window.startsAt + hourMs;

/** Counts one request, or returns null if the limit is reached. If `reserved` has grown, the caller must store it before the request may run. */
export function countOne(window: Window, limit: number): Window | null {
  if (window.used >= limit) return null;
  const used = window.used + 1;
  if (used <= window.reserved) return { ...window, used };
  return { ...window, used, reserved: Math.min(window.used + window.block, limit), block: Math.min(window.block * 2, largestBlock) };
}

/** Releases the unused part of the reservation after a quiet period, and resets the block size to 1. */
export const releaseReservation = (window: Window): Window => ({ ...window, reserved: window.used, block: 1 });
