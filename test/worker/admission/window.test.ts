import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  countOne,
  largestBlock,
  openWindow,
  recoveredWindow,
  releaseReservation,
  resetsAt,
  type Window,
  windowAt,
} from "../../../src/admission/window.ts";
import { hourMs } from "../../../src/time/clock.ts";

const startsAt = Date.UTC(2026, 10, 21, 7);

describe("A rate limit window", () => {
  it("is a clock hour and ends at the full hour", () => {
    expect(resetsAt(windowAt(openWindow(startsAt), startsAt + hourMs - 1))).toBe(startsAt + hourMs);
    expect(windowAt(openWindow(startsAt), startsAt + hourMs).startsAt).toBe(startsAt + hourMs);
    expect(windowAt(openWindow(startsAt), startsAt + 5.5 * hourMs).startsAt).toBe(startsAt + 5 * hourMs);
  });

  it("stays current when the clock steps back", () => {
    const window = { ...openWindow(startsAt), used: 7, reserved: 8 };
    expect(windowAt(window, startsAt - 1)).toBe(window);
    expect(windowAt(window, startsAt - 20 * hourMs)).toBe(window);
  });

  it("reserves requests in blocks that grow during a burst, and never more than the limit", () => {
    const blocks: number[] = [];
    let window = openWindow(startsAt);
    for (let next = countOne(window, 300); next; next = countOne(next, 300)) {
      if (next.reserved !== window.reserved) blocks.push(next.reserved - window.reserved);
      window = next;
    }
    expect(blocks).toEqual([1, 1, 2, 4, 8, 16, 32, 64, 64, 64, 44]);
    expect([window.used, window.reserved]).toEqual([300, 300]);
  });

  it("applies a limit that was lowered or raised within the hour", () => {
    const window = { startsAt, used: 40, reserved: 63, reservations: 7 };
    expect(countOne(window, 40)).toBeNull();
    expect(countOne(window, 41)?.used).toBe(41);
    expect(countOne({ ...window, used: 63 }, 5000)?.reserved).toBe(127);
  });

  it("admits a request if and only if the current limit is not reached, for any sequence of limits and hours", () => {
    const step = fc.oneof(
      { weight: 20, arbitrary: fc.constant("request" as const) },
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 300 }) },
      { weight: 1, arbitrary: fc.constant("hour" as const) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 1500, size: "max" }), (steps) => {
        let [now, limit, admitted] = [startsAt, 100, 0];
        let window = openWindow(startsAt);
        for (const each of steps) {
          if (each === "hour") [now, admitted] = [now + hourMs, 0];
          else if (each !== "request") limit = each;
          else {
            const next = countOne(windowAt(window, now), limit);
            expect(next === null).toBe(admitted >= limit);
            if (next) [window, admitted] = [next, admitted + 1];
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  // If the guard crashes, all data in its memory is lost. In a quiet period without requests, the guard gives back the unused part of its
  // reservation.
  const guardEvents = fc.array(fc.constantFrom("request", "request", "request", "request", "crash", "quiet period"), {
    minLength: 1,
    maxLength: 2000,
  });

  it("admits no more requests than the limit and loses at most 63 to each crash, for any sequence of events", () => {
    fc.assert(
      fc.property(guardEvents, fc.integer({ min: 1, max: 700 }), (events, limit) => {
        let window: Window = openWindow(startsAt);
        let admitted = 0;
        let denied = 0;
        let crashes = 0;
        const counts = new Set<number>();
        for (const event of events) {
          if (event === "crash") {
            crashes++;
            window = recoveredWindow(window.startsAt, window.reserved);
          } else if (event === "quiet period") window = releaseReservation(window);
          else {
            const next = countOne(window, limit);
            if (next === null) denied++;
            else {
              admitted++;
              expect(counts.has(next.used)).toBe(false);
              counts.add(next.used);
              expect(next.reserved).toBeGreaterThanOrEqual(next.used);
              expect(next.reserved).toBeLessThanOrEqual(Math.max(limit, window.reserved));
              window = next;
            }
          }
        }
        expect(admitted).toBeLessThanOrEqual(limit);
        if (denied > 0) expect(admitted).toBeGreaterThanOrEqual(limit - crashes * (largestBlock - 1));
      }),
      { numRuns: 500 },
    );
  });
});
