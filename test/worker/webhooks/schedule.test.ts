import { describe, expect, it } from "vitest";
import { dayMs, hourMs, minuteMs, secondMs } from "../../../src/time/clock.ts";
import { attemptsAfter, maxAttempts, nextAttemptAt, retryAfterMsOf } from "../../../src/webhooks/schedule.ts";

const now = Date.UTC(2026, 10, 21, 7, 30);
const delays = [5 * secondMs, 5 * minuteMs, 30 * minuteMs, 2 * hourMs, 5 * hourMs, 10 * hourMs, 14 * hourMs, 20 * hourMs, 24 * hourMs];

describe("The attempts of a delivery", () => {
  it("are ten, the further ones each within 20 % of its delay, for a thousand seeds that reach both ends", () => {
    for (const [index, delay] of delays.entries()) {
      const waits = Array.from({ length: 1000 }, (_, seed) => (nextAttemptAt(index + 1, now, seed / 999, null) ?? 0) - now);
      expect(Math.min(...waits)).toBe(0.8 * delay);
      expect(Math.max(...waits)).toBe(1.2 * delay);
    }
    expect(maxAttempts).toBe(10);
    expect(nextAttemptAt(10, now, 0.5, null)).toBeNull();
    expect(nextAttemptAt(10, now, 0.5, 1000)).toBeNull();
  });

  it("wait for as long as the receiver asks, but no longer than a day, and never less than without", () => {
    expect(nextAttemptAt(1, now, 0.5, 3 * minuteMs)).toBe(now + 3 * minuteMs);
    expect(nextAttemptAt(1, now, 0.5, 40 * dayMs)).toBe(now + dayMs);
    expect(nextAttemptAt(3, now, 0.5, secondMs)).toBe(now + 30 * minuteMs);
  });
});

describe("Retry-After", () => {
  it.each([
    ["120", 120 * secondMs],
    [" 0 ", 0],
    ["Sat, 21 Nov 2026 07:31:00 GMT", minuteMs],
    ["Sat, 21 Nov 2026 07:29:00 GMT", 0],
    [null, null],
    ["", null],
    ["-1", null],
    ["1.5", null],
    ["soon", null],
    ["2026-11-21T08:00:00Z", null],
    ["99999999999", 99_999_999_999_000],
    ["Saturday, 21-Nov-26 07:31:00 GMT", 60_000],
    ["Sat Nov 21 07:31:00 2026", 60_000],
    ["Sun, 99 Feb 2027 00:00:00 GMT", null],
  ])("%j asks for %s ms", (header, expected) => {
    expect(retryAfterMsOf(header, now)).toBe(expected);
  });
});

it("What is planned after the next attempt follows the schedule to its end", () => {
  const now = Date.UTC(2026, 0, 31);
  const planned = attemptsAfter(1, now);
  expect(planned).toHaveLength(8);
  expect([(planned[0] ?? 0) - now, (planned.at(-1) ?? 0) - (planned.at(-2) ?? 0)]).toEqual([5 * 60_000, 24 * 3_600_000]);
  expect(attemptsAfter(9, now)).toEqual([]);
});
