import { vi } from "vitest";

/**
 * Waits until the clock reaches a time, in milliseconds since the epoch. Tests use this function only if real time is their subject, as for
 * the expiry of a key.
 */
export const untilClockReaches = (timeMs: number): Promise<boolean> =>
  vi.waitUntil(() => Date.now() >= timeMs, { timeout: timeMs - Date.now() + 5000, interval: 10 });
