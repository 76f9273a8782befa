import { describe, expect, it } from "vitest";
import { dayMs, hourMs, minuteMs, secondMs } from "../../../src/lib/time/clock.ts";
import { attemptsAfter, maxAttempts, nextAttemptAt, retryAfterMsOf } from "../../../src/webhooks/deliveries/schedule.ts";

const now = Date.UTC(2026, 10, 21, 7, 30);
const delays = [5 * secondMs, 5 * minuteMs, 30 * minuteMs, 2 * hourMs, 5 * hourMs, 10 * hourMs, 14 * hourMs, 20 * hourMs, 24 * hourMs];

describe("The schedule of a delivery", () => {
  it("has ten attempts and delays each retry within 20 % of its nominal delay", () => {
    for (const [index, delay] of delays.entries()) {
      const waits = Array.from({ length: 1000 }, (_, seed) => (nextAttemptAt(index + 1, now, seed / 999, null) ?? 0) - now);
      expect(Math.min(...waits)).toBe(0.8 * delay);
      expect(Math.max(...waits)).toBe(1.2 * delay);
    }
    expect(maxAttempts).toBe(10);
    expect(nextAttemptAt(10, now, 0.5, null)).toBeNull();
    expect(nextAttemptAt(10, now, 0.5, 1000)).toBeNull();
  });

  it("honors a longer delay that the receiver requests, up to one day", () => {
    expect(nextAttemptAt(1, now, 0.5, 3 * minuteMs)).toBe(now + 3 * minuteMs);
    expect(nextAttemptAt(1, now, 0.5, 40 * dayMs)).toBe(now + dayMs);
    expect(nextAttemptAt(3, now, 0.5, secondMs)).toBe(now + 30 * minuteMs);
  });

  it("predicts all attempts after the next attempt", () => {
    const nextAt = Date.UTC(2026, 0, 31);
    const predicted = attemptsAfter(1, nextAt);
    expect(predicted).toHaveLength(8);
    expect([(predicted[0] ?? 0) - nextAt, (predicted.at(-1) ?? 0) - (predicted.at(-2) ?? 0)]).toEqual([5 * 60_000, 24 * 3_600_000]);
    expect(attemptsAfter(9, nextAt)).toEqual([]);
  });
});

describe("A Retry-After header", () => {
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
  ])("with the value %j requests a delay of %s ms", (header, delayMs) => {
    expect(retryAfterMsOf(header, now)).toBe(delayMs);
  });
});
