import { onTestFinished, vi } from "vitest";

/**
 * Waits until the clock reaches `timeMs`, in milliseconds since the epoch. Use this function only for tests that depend on real time, for
 * example tests of key expiry.
 */
export const untilClockReaches = (timeMs: number): Promise<boolean> =>
  vi.waitUntil(() => Date.now() >= timeMs, { timeout: timeMs - Date.now() + 5000, interval: 10 });

/**
 * Lets all timeouts of the isolate pass a hundred times as fast until the test ends. The code under test runs in the isolate of the test. Returns the list to
 * which each timeout is added, in milliseconds.
 */
export function hurryTimeouts(): number[] {
  const timeouts: number[] = [];
  const shortened = (ms = 0) => {
    timeouts.push(ms);
    return ms / 100;
  };
  const [timer, signal] = [globalThis.setTimeout, AbortSignal.timeout];
  const spies = [
    vi.spyOn(globalThis, "setTimeout").mockImplementation(((run: () => void, ms?: number) => timer(run, shortened(ms))) as never),
    vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => signal.call(AbortSignal, shortened(ms))),
  ];
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  return timeouts;
}
