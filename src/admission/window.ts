import { hourMs, hourStart } from "../time/clock.ts";

/**
 * The request count of a key in one UTC clock hour, with a reservation on disk. The guard first stores `reserved` on disk. Only then does
 * the guard respond to requests that the reservation covers. If the object crashes, it resumes counting from `reserved`. The resumed count
 * is never too low. It can be too high, but at most by the unused part of the reservation.
 */
export interface Window {
  startsAt: number;
  used: number;
  reserved: number;
  /**
   * The number of reservations since the last quiet period. It sets the size of the next reservation: 1, 1, 2, 4 and so on, up to
   * 64 requests. Bursts therefore need few writes to disk. Keys with little traffic write once for each request, and waste none.
   */
  reservations: number;
}

const sizeOf = (reservations: number) => Math.min(2 ** Math.max(0, reservations - 1), largestBlock);

export const largestBlock = 64;

export const openWindow = (startsAt: number): Window => ({ startsAt, used: 0, reserved: 0, reservations: 0 });

/** Rebuilds the window after the object has lost its in-memory state. The whole reservation counts as used. */
export const recoveredWindow = (startsAt: number, reserved: number): Window => ({ startsAt, used: reserved, reserved, reservations: 0 });

/** Returns the window at `now`. If the clock is set back, the window stays the same. */
export const windowAt = (window: Window, now: number): Window => (now >= window.startsAt + hourMs ? openWindow(hourStart(now)) : window);

export const resetsAt = (window: Window): number => window.startsAt + hourMs;

/**
 * If the limit is reached, returns null. Otherwise counts one request and returns the new window. If `reserved` has grown, the caller must
 * store the new value before the request may run.
 */
export function countOne(window: Window, limit: number): Window | null {
  if (window.used >= limit) return null;
  const used = window.used + 1;
  if (used <= window.reserved) return { ...window, used };
  const { reservations } = window;
  return { ...window, used, reserved: Math.min(window.used + sizeOf(reservations), limit), reservations: reservations + 1 };
}

/** Returns the window after a quiet period. Only requests that follow each other quickly reserve more than one request at a time. */
export const afterQuiet = (window: Window): Window => (window.reservations === 0 ? window : { ...window, reservations: 0 });

/** Releases the unused part of the reservation. Called after a quiet period. */
export const releaseReservation = (window: Window): Window => ({ ...window, reserved: window.used, reservations: 0 });
