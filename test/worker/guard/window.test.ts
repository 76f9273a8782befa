import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import type { Limit, Period } from "../../../src/budget/limits.ts";
import {
  afterQuiet,
  countUnits,
  isAhead,
  largestBlock,
  recoveredWindows,
  releaseReservation,
  roomFrom,
  storedForm,
  unusedWindows,
  usageOf,
  violatedBy,
  type Windows,
  windowsAt,
} from "../../../src/guard/window.ts";
import { dayMs, hourMs, minuteMs, secondMs } from "../../../src/lib/time/clock.ts";

const startsAt = Date.UTC(2026, 10, 21, 7);
const lengths = { second: secondMs, minute: minuteMs, hour: hourMs, day: dayMs } as const;

const hourly = (limit: number): Limit[] => [{ per: "hour", limit }];

/** Counts a request if all limits have room. Returns the windows and the violated limits. */
function tryCount(before: Windows, limits: readonly Limit[], now: number, cost = 1): { windows: Windows; violated: Period[] } {
  const windows = windowsAt(before, limits, now);
  const violated = violatedBy(windows, limits, cost, now);
  return { windows: violated.length > 0 ? windows : countUnits(windows, limits, cost, now), violated };
}

/** Counts requests until one is refused, at most `max`. Returns the windows and how many were counted. */
function countAll(before: Windows, limits: readonly Limit[], now: number, max = 100_000): { windows: Windows; counted: number } {
  let windows = before;
  for (let counted = 0; ; counted++) {
    const next = tryCount(windows, limits, now);
    if (next.violated.length > 0 || counted === max) return { windows, counted };
    windows = next.windows;
  }
}

const usedOf = (windows: Windows) => windows.fixed.map(({ used }) => used);

describe("Fixed windows", () => {
  it.each([
    ["hour", startsAt + 17, startsAt + hourMs],
    ["day", startsAt, Date.UTC(2026, 10, 22)],
    ["month", startsAt, Date.UTC(2026, 11, 1)],
    ["month", Date.UTC(2026, 11, 31, 23, 59), Date.UTC(2027, 0, 1)],
    ["month", Date.UTC(2028, 1, 29), Date.UTC(2028, 2, 1)],
  ] as const)("of a clock %s in UTC end with it", (per, now, end) => {
    const limits: Limit[] = [{ per, limit: 3 }];
    const { windows, counted } = countAll(unusedWindows, limits, now);
    expect([counted, usageOf(windows, limits, now)]).toEqual([3, [{ per, limit: 3, used: 3, resetsAt: end }]]);
    expect([tryCount(windows, limits, end - 1).violated, tryCount(windows, limits, end).violated]).toEqual([[per], []]);
    expect(roomFrom(windows, limits, 1, [per])).toBe(end);
  });

  it("reserve units in blocks that grow during a burst, and that are small where little is left", () => {
    const blocks: number[] = [];
    let windows = unusedWindows;
    for (let reserved = 0; ; ) {
      const next = tryCount(windows, hourly(300), startsAt);
      if (next.violated.length > 0) break;
      windows = next.windows;
      const [hour] = windows.fixed;
      if (hour && hour.reserved !== reserved) blocks.push(hour.reserved - reserved);
      reserved = hour?.reserved ?? 0;
    }
    expect(blocks.slice(0, 8)).toEqual([1, 1, 2, 4, 8, 16, 16, 15]);
    expect(blocks.slice(-16)).toEqual(blocks.slice(-16).map(() => 1));
    expect(usedOf(windows)).toEqual([300]);
    expect(Math.max(...countAllBlocks(5000))).toBe(largestBlock);
  });

  it("count from the moment at which their limit was set", () => {
    const { windows } = countAll(unusedWindows, hourly(40), startsAt, 10);
    const limits: Limit[] = [...hourly(40), { per: "day", limit: 5 }];
    expect(countAll(windows, limits, startsAt).counted).toBe(5);
  });
});

/** Returns the sizes of the reservations for an hourly limit that is used up at once. */
function countAllBlocks(limit: number): number[] {
  const blocks: number[] = [];
  let windows = unusedWindows;
  for (let counted = 0; counted < limit; counted++) {
    const before = windows.fixed[0]?.reserved ?? 0;
    windows = tryCount(windows, hourly(limit), startsAt).windows;
    blocks.push((windows.fixed[0]?.reserved ?? 0) - before);
  }
  return blocks;
}

describe("Buckets", () => {
  const limits: Limit[] = [{ per: "second", limit: 20 }, ...hourly(1000)];

  it("have room for the whole limit at once, and get it back evenly", () => {
    const { windows, counted } = countAll(unusedWindows, limits, startsAt);
    expect([counted, violatedBy(windows, limits, 1, startsAt)]).toEqual([20, ["second"]]);
    expect(usageOf(windows, limits, startsAt)[0]).toEqual({ per: "second", limit: 20, used: 20, resetsAt: startsAt + secondMs });
    expect(roomFrom(windows, limits, 1, ["second"])).toBe(startsAt + 50);
    expect([countAll(windows, limits, startsAt + 49).counted, countAll(windows, limits, startsAt + 50).counted]).toEqual([0, 1]);
    expect(countAll(windows, limits, startsAt + 500).counted).toBe(10);
    expect(countAll(windows, limits, startsAt + 5000).counted).toBe(20);
  });

  it.each([1, 3, 7, 333, 999])("have room for exactly %i units, although a unit takes no whole number of milliseconds", (limit) => {
    for (const per of ["second", "minute"] as const)
      expect(countAll(unusedWindows, [{ per, limit }, ...hourly(5000)], startsAt + 1).counted).toBe(limit);
  });
});

describe("Several windows", () => {
  it("are decided together: a refusal by one window uses nothing of the others", () => {
    const limits: Limit[] = [
      { per: "second", limit: 5 },
      { per: "hour", limit: 8 },
      { per: "day", limit: 100 },
    ];
    const { windows } = countAll(unusedWindows, limits, startsAt);
    const before = usageOf(windows, limits, startsAt).map(({ used }) => used);
    for (let n = 0; n < 50; n++) expect(tryCount(windows, limits, startsAt).violated).toEqual(["second"]);
    expect([before, usageOf(windows, limits, startsAt).map(({ used }) => used)]).toEqual([
      [5, 5, 5],
      [5, 5, 5],
    ]);
    const later = countAll(windows, limits, startsAt + 2000);
    expect([later.counted, violatedBy(later.windows, limits, 1, startsAt + 2000)]).toEqual([3, ["hour"]]);
  });

  it("name every limit that has no room, and the time from which all have room", () => {
    const limits: Limit[] = [
      { per: "minute", limit: 10 },
      { per: "hour", limit: 10 },
      { per: "day", limit: 30 },
    ];
    const { windows } = countAll(unusedWindows, limits, startsAt);
    expect(violatedBy(windows, limits, 1, startsAt)).toEqual(["minute", "hour"]);
    expect(roomFrom(windows, limits, 1, ["minute", "hour"])).toBe(startsAt + hourMs);
    // A request that costs more than what is left uses nothing.
    expect([violatedBy(windows, limits, 21, startsAt), usedOf(windows)]).toEqual([
      ["minute", "hour", "day"],
      [10, 10],
    ]);
  });

  const anyLimits = fc
    .record({
      second: fc.option(fc.integer({ min: 1, max: 30 }), { nil: undefined }),
      minute: fc.option(fc.integer({ min: 1, max: 90 }), { nil: undefined }),
      hour: fc.integer({ min: 1, max: 700 }),
      day: fc.option(fc.integer({ min: 1, max: 1500 }), { nil: undefined }),
    })
    .map((given) => Object.entries(given).flatMap(([per, limit]): Limit[] => (limit === undefined ? [] : [{ per: per as Period, limit }])));

  const events = fc.array(
    fc.oneof(
      { weight: 30, arbitrary: fc.record({ type: fc.constant("request" as const), cost: fc.constantFrom(1, 1, 1, 1, 5) }) },
      { weight: 10, arbitrary: fc.record({ type: fc.constant("wait" as const), ms: fc.constantFrom(1, 7, 50, 400, 3000, 20_000) }) },
      { weight: 1, arbitrary: fc.record({ type: fc.constant("wait" as const), ms: fc.constantFrom(hourMs / 3, dayMs / 5) }) },
      { weight: 1, arbitrary: fc.record({ type: fc.constant("quiet period" as const) }) },
    ),
    { minLength: 1, maxLength: 1200, size: "max" },
  );
  const crash = fc.record({ type: fc.constant("crash" as const) });
  const eventsWithCrashes = fc.array(fc.oneof({ weight: 1, arbitrary: crash }, { weight: 12, arbitrary: events }), { maxLength: 12 });

  type Event = { type: "request"; cost: number } | { type: "wait"; ms: number } | { type: "quiet period" } | { type: "crash" };

  /** Plays events like a guard. Returns the admitted requests, and checks each decision with `check`. */
  function play(
    all: readonly Event[],
    limits: readonly Limit[],
    check: (admitted: readonly { at: number; cost: number }[], violated: readonly Period[], now: number, cost: number) => void,
  ) {
    const admitted: { at: number; cost: number }[] = [];
    let [now, windows] = [startsAt + 12_345, unusedWindows];
    let disk = storedForm(windowsAt(windows, limits, now));
    for (const event of all) {
      if (event.type === "wait") now += event.ms;
      else if (event.type === "crash") windows = recoveredWindows(disk, limits, now);
      else if (event.type === "quiet period") {
        now += 5000;
        if (isAhead(windows)) {
          windows = releaseReservation(windows);
          disk = storedForm(windows);
        }
        windows = afterQuiet(windows);
      } else {
        const next = tryCount(windows, limits, now, event.cost);
        check(admitted, next.violated, now, event.cost);
        const isNew = next.windows.fixed.some(({ per, startsAt: start, reserved }) => {
          const before = windows.fixed.find((each) => each.per === per && each.startsAt === start);
          return before === undefined || reserved !== before.reserved;
        });
        windows = next.windows;
        if (next.violated.length > 0) continue;
        if (isNew) disk = storedForm(windows);
        admitted.push({ at: now, cost: event.cost });
      }
    }
    return admitted;
  }

  /** Returns the units that were admitted in the fixed window that contains `now`. */
  const unitsIn = (admitted: readonly { at: number; cost: number }[], per: "hour" | "day", now: number) => {
    const start = now - (now % lengths[per]);
    return admitted.filter(({ at }) => at >= start).reduce((sum, { cost }) => sum + cost, 0);
  };

  /** Returns whether a bucket has room, computed from all admitted requests: no span up to now may have more than limit + limit x span. */
  const hasRoom = (admitted: readonly { at: number; cost: number }[], { per, limit }: Limit, now: number, cost: number) => {
    let units = cost;
    if (units > limit) return false;
    for (const each of admitted.toReversed()) {
      units += each.cost;
      if (units > limit + (limit * (now - each.at)) / lengths[per as "second"] + 1e-6) return false;
    }
    return true;
  };

  it("admit a request if and only if each limit has room, for any limits, costs and pauses", { tags: ["long"] }, () => {
    fc.assert(
      fc.property(events, anyLimits, (all, limits) => {
        play(all as Event[], limits, (admitted, violated, now, cost) => {
          const expected = limits.filter((limit) =>
            limit.per === "hour" || limit.per === "day"
              ? unitsIn(admitted, limit.per, now) + cost > limit.limit
              : !hasRoom(admitted, limit, now, cost),
          );
          expect(violated.toSorted()).toEqual(expected.map(({ per }) => per).toSorted());
        });
      }),
      { numRuns: inject("isLong") ? 150 : 60 },
    );
  });

  it("never admit more than a limit through any number of crashes, and each crash wastes little of a small limit", {
    tags: ["long"],
  }, () => {
    fc.assert(
      fc.property(eventsWithCrashes, anyLimits, (groups, limits) => {
        const all = groups.flat() as Event[];
        const crashes = all.filter(({ type }) => type === "crash").length;
        play(all, limits, (admitted, violated, now, cost) => {
          for (const { per, limit } of limits) {
            if (per !== "hour" && per !== "day") continue;
            const units = unitsIn(admitted, per, now);
            expect(units).toBeLessThanOrEqual(limit);
            if (violated.includes(per)) expect(units + cost).toBeGreaterThan(limit - crashes * Math.max(4, Math.floor(limit / 16)));
          }
          if (violated.length > 0) return;
          for (const limit of limits.filter(({ per }) => per === "second" || per === "minute"))
            expect(hasRoom(admitted, limit, now, cost)).toBe(true);
        });
      }),
      { numRuns: inject("isLong") ? 150 : 25 },
    );
  });
});
