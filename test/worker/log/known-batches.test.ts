import { describe, expect, it } from "vitest";
import { minuteMs } from "../../../src/lib/time/clock.ts";
import { KnownBatches } from "../../../src/log/writer/known-batches.ts";

const now = Date.now();
const add = (batches: KnownBatches, isolate: string, sequence: number, at = now) =>
  batches.add({ isolate, at, ranges: [[sequence, sequence]] });

describe("The known batches of a log writer", () => {
  it("are exactly those that were added, in any order, and take one range of sequences when no batch is missing", () => {
    const batches = new KnownBatches();
    const added = [5, 1, 900, 2, 4, 901, 2];
    for (const sequence of added) add(batches, "one", sequence);
    add(batches, "other", 3);
    const known = Array.from({ length: 1000 }, (_, sequence) => sequence).filter((sequence) => batches.has({ isolate: "one", sequence }));
    expect(known).toEqual([1, 2, 4, 5, 900, 901]);
    for (const sequence of known.concat(3)) add(batches, "third", sequence);
    expect(batches.all.find(({ isolate }) => isolate === "third")?.ranges).toEqual([
      [1, 5],
      [900, 901],
    ]);
  });

  it("are remembered for any time while there are at most 10,000 isolates, and then for ten minutes", () => {
    const batches = new KnownBatches();
    for (let number = 0; number < 10_000; number++) add(batches, `isolate_${number}`, 1, now + number);
    add(batches, "isolate_0", 2, now + 60 * minuteMs);
    expect(batches.all.length).toBe(10_000);
    add(batches, "one_more", 1, now + 1 + 10 * minuteMs);
    expect(batches.all.length).toBe(10_000);
    expect([0, 1, 2].map((number) => batches.has({ isolate: `isolate_${number}`, sequence: 1 }))).toEqual([true, false, true]);
    const recent = new KnownBatches();
    for (let number = 0; number < 10_050; number++) add(recent, `isolate_${number}`, 1, now + 9 * minuteMs);
    expect(recent.all.length).toBe(10_050);
  });
});
