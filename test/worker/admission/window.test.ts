import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  countOne,
  giveBack,
  largestBlock,
  openWindow,
  recoveredWindow,
  resetsAt,
  type Window,
  windowAt,
} from "../../../src/admission/window.ts";
import { hourMs } from "../../../src/time/clock.ts";

const startsAt = Date.UTC(2026, 10, 21, 7);

describe("A window", () => {
  it("is the clock hour: it ends at the full hour, whenever it was opened", () => {
    expect(resetsAt(windowAt(openWindow(startsAt), startsAt + hourMs - 1))).toBe(startsAt + hourMs);
    expect(windowAt(openWindow(startsAt), startsAt + hourMs).startsAt).toBe(startsAt + hourMs);
    expect(windowAt(openWindow(startsAt), startsAt + 5.5 * hourMs).startsAt).toBe(startsAt + 5 * hourMs);
  });

  it("is not left for an earlier one when the clock steps back", () => {
    const window = { ...openWindow(startsAt), used: 7, reserved: 8 };
    expect(windowAt(window, startsAt - 1)).toBe(window);
    expect(windowAt(window, startsAt - 20 * hourMs)).toBe(window);
  });

  it("reserves in blocks that grow with the burst, and never beyond the limit", () => {
    const reserved: number[] = [];
    let window = openWindow(startsAt);
    for (let next = countOne(window, 300); next; next = countOne(next, 300)) {
      if (next.reserved !== window.reserved) reserved.push(next.reserved - window.reserved);
      window = next;
    }
    expect(reserved).toEqual([1, 2, 4, 8, 16, 32, 64, 64, 64, 45]);
    expect([window.used, window.reserved]).toEqual([300, 300]);
  });

  it("follows a limit that is lowered or raised within the hour", () => {
    const window = { startsAt, used: 40, reserved: 63, block: 64 };
    expect(countOne(window, 40)).toBeNull();
    expect(countOne(window, 41)?.used).toBe(41);
    expect(countOne({ ...window, used: 63 }, 5000)?.reserved).toBe(127);
  });

  it("never admits a request over the limit of its moment, though that is changed at will and hours pass", () => {
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

  // What can happen to an object: a request, a crash (memory is lost), a silence (what is unused is given back).
  const happenings = fc.array(fc.constantFrom("request", "request", "request", "request", "crash", "silence"), {
    minLength: 1,
    maxLength: 2000,
  });

  it("never admits more than the limit, and loses at most 63 to a crash, in any order of events", () => {
    fc.assert(
      fc.property(happenings, fc.integer({ min: 1, max: 700 }), (list, limit) => {
        let window: Window = openWindow(startsAt);
        let admitted = 0;
        let refused = 0;
        let crashes = 0;
        const seen = new Set<number>();
        for (const happening of list) {
          if (happening === "crash") {
            crashes++;
            window = recoveredWindow(window.startsAt, window.reserved);
          } else if (happening === "silence") window = giveBack(window);
          else {
            const next = countOne(window, limit);
            if (next === null) refused++;
            else {
              admitted++;
              expect(seen.has(next.used)).toBe(false);
              seen.add(next.used);
              expect(next.reserved).toBeGreaterThanOrEqual(next.used);
              expect(next.reserved).toBeLessThanOrEqual(Math.max(limit, window.reserved));
              window = next;
            }
          }
        }
        expect(admitted).toBeLessThanOrEqual(limit);
        if (refused > 0) expect(admitted).toBeGreaterThanOrEqual(limit - crashes * (largestBlock - 1));
      }),
      { numRuns: 500 },
    );
  });
});
