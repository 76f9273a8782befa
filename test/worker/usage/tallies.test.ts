import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  addEntry,
  addRollups,
  type Rollups,
  rollupsFrom,
  roundedDuration,
  storedKeys,
  type Talliable,
  totalsOf,
} from "../../../src/usage/rollups.ts";

const entry = fc.record<Talliable>(
  {
    keyId: fc.constantFrom("key_a", "key_b", "__proto__"),
    route: fc.constantFrom("/api/v1/tasks", "/api/v1/users/{id}", "constructor"),
    status: fc.constantFrom(200, 404, 429, 500, null),
    durationMs: fc.option(fc.nat({ max: 90_000 }), { nil: null }),
    admitted: fc.boolean(),
    counted: fc.boolean(),
    count: fc.integer({ min: 1, max: 9 }),
  },
  { noNullPrototype: true },
);

const rollupsOf = (entries: readonly Talliable[]): Rollups => {
  const rollups: Rollups = new Map();
  for (const each of entries) addEntry(rollups, each);
  return rollups;
};

/** Returns rollups as plain values, in an order that does not depend on the order of the entries. */
const plain = (rollups: Rollups) =>
  storedKeys(rollups).map(([keyId, histogram, cells]) => [keyId, histogram, cells.map((cell) => JSON.stringify(cell)).toSorted()]);

describe("Rollups", () => {
  it("of two groups of entries add up to the rollups of all entries", () => {
    fc.assert(
      fc.property(fc.array(entry), fc.array(entry), (some, others) => {
        const sum = rollupsOf(some);
        addRollups(sum, rollupsOf(others));
        expect(plain(sum)).toEqual(plain(rollupsOf([...some, ...others])));
      }),
    );
  });

  it("are the same as before if an entry is added and removed again", () => {
    fc.assert(
      fc.property(fc.array(entry), entry, (entries, other) => {
        const rollups = rollupsOf(entries);
        addEntry(rollups, other);
        addEntry(rollups, other, -1);
        expect(plain(rollups)).toEqual(plain(rollupsOf(entries)));
      }),
    );
  });

  it("are read back as they were stored", () => {
    fc.assert(
      fc.property(fc.array(entry), (entries) => {
        const rollups = rollupsOf(entries);
        expect(plain(rollupsFrom(JSON.parse(JSON.stringify(storedKeys(rollups)))))).toEqual(plain(rollups));
      }),
    );
  });

  it("have totals that count each request once, and response times of admitted requests only", () => {
    fc.assert(
      fc.property(fc.array(entry), (entries) => {
        const { byStatus, histogram } = totalsOf(rollupsOf(entries));
        const timed = entries.filter(({ admitted, durationMs }) => admitted && durationMs !== null);
        const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
        expect(sum(Object.values(byStatus).map(([requests]) => requests))).toBe(sum(entries.map(({ count }) => count)));
        expect(sum(Object.values(byStatus).map(([, , , durationMs]) => durationMs))).toBe(
          sum(timed.map(({ count, durationMs }) => count * (durationMs ?? 0))),
        );
        expect(sum(Object.values(histogram))).toBe(sum(timed.map(({ count }) => count)));
      }),
    );
  });

  it("round response times by at most 5 %, and keep those below 20 ms exact", () => {
    fc.assert(
      fc.property(fc.nat(), (durationMs) => {
        const rounded = roundedDuration(durationMs);
        expect(Math.abs(rounded - durationMs)).toBeLessThanOrEqual(durationMs < 20 ? 0 : 0.05 * durationMs);
        expect(roundedDuration(rounded)).toBe(rounded);
      }),
    );
  });
});
