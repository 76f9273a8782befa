import { vi } from "vitest";

/**
 * Waits until the clock reaches `timeMs`, in milliseconds since the epoch. Use this function only for tests that depend on real time, for
 * example tests of key expiry.
 */
export const untilClockReaches = (timeMs: number): Promise<boolean> =>
  vi.waitUntil(() => Date.now() >= timeMs, { timeout: timeMs - Date.now() + 5000, interval: 10 });
