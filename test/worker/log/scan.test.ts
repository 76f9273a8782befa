import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dayMs } from "../../../src/lib/time/clock.ts";
import type { Entry } from "../../../src/log/entry.ts";
import { type ActivityFilter, matches, mayMatch, summaryOf } from "../../../src/log/read/activity-filter.ts";
import { combine, isWithin, type Query, scan, searchFurther } from "../../../src/log/segments/scan.ts";
import { maxSegmentEntries, segmentsOf, sorted } from "../../../src/log/segments/segment.ts";
import { entryOf } from "../support/entries.ts";

const tenant = { accountId: "acc_1", keyId: "key_a" };
const noon = 20_000 * dayMs + dayMs / 2;

const entry = fc
  .record({
    ageMs: fc.nat({ max: 100_000 }),
    method: fc.constantFrom("GET", "POST"),
    status: fc.constantFrom(200, 201, 404, 500, null),
    keyId: fc.constantFrom("key_a", "key_b"),
    path: fc.constantFrom("/api/v1/tasks", "/api/v1/users"),
  })
  .map(({ ageMs, ...more }): Entry => entryOf(tenant, noon - ageMs, more));

const filter = fc.record<ActivityFilter>(
  {
    method: fc.constantFrom("GET", "POST", "DELETE"),
    statuses: fc.array(fc.constantFrom(2, 4, 404, 500), { minLength: 1, maxLength: 2 }),
    keyId: fc.constantFrom("key_a", "key_b"),
    path: fc.constantFrom("/api/v1/tasks", "/api/v1/none"),
  },
  { requiredKeys: [] },
);

describe("A summary of entries", () => {
  it("never hides an entry that matches", () => {
    fc.assert(
      fc.property(fc.array(entry, { minLength: 1 }), filter, (entries, given) => {
        if (entries.some((each) => matches(given, each))) expect(mayMatch(given, summaryOf(entries))).toBe(true);
      }),
    );
  });

  it("hides at least 97 of 100 segments that do not have a path", () => {
    const entries = Array.from({ length: 1000 }, (_, at) => entryOf(tenant, noon + at, { path: `/api/v1/tasks/${at}` }));
    const summary = summaryOf(entries);
    const shown = Array.from({ length: 1000 }, (_, at) => mayMatch({ path: `/api/v1/users/${at}` }, summary)).filter(Boolean);
    expect(shown.length).toBeLessThan(30);
  });
});

describe("A search", () => {
  it("finds in overlapping segments, page by page, exactly the entries that match", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(entry, { minLength: 1, maxLength: 8 }), { maxLength: 30, size: "max" }),
        filter,
        fc.integer({ min: 1, max: 9 }),
        async (groups, given, limit) => {
          const refs = groups
            .map((group) => sorted(group))
            .map((entries) => ({ firstId: entries[0]?.id ?? "", lastId: entries.at(-1)?.id ?? "", summary: summaryOf(entries), entries }))
            .toSorted((a, b) => (a.lastId > b.lastId ? -1 : 1));
          const all: Entry[] = [];
          for (let before: string | null = null; ; ) {
            const query: Query = { filter: given, before, from: null, limit };
            const overlapping = refs.filter(({ firstId }) => before === null || firstId < before);
            const found = await searchFurther(query, async (mayOpen) => {
              let opened = 0;
              const open = (some: readonly (typeof refs)[number][]) => {
                opened += some.length;
                return some.map(({ entries }) => entries);
              };
              const result = await scan(overlapping, open, query, mayOpen);
              expect(opened).toBeLessThanOrEqual(mayOpen);
              return result;
            });
            const page = combine([found], limit);
            expect(page.entries.length).toBeLessThanOrEqual(limit);
            expect(page.entries.every((each) => isWithin(query, each))).toBe(true);
            all.push(...page.entries);
            if (page.completeFrom === null) break;
            before = page.completeFrom;
          }
          const expected = sorted(groups.flat().filter((each) => matches(given, each))).reverse();
          expect(all.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
        },
      ),
    );
  });
});

describe("Segments", () => {
  it("have at most 4,000 entries of one UTC day, and together all entries in their order", () => {
    const entries = Array.from({ length: 9000 }, (_, at) => entryOf(tenant, noon + at * 7000));
    const segments = segmentsOf(entries);
    expect(segments.reduce((sum, segment) => sum + segment.entries, 0)).toBe(9000);
    for (const { firstId, lastId, entries: count } of segments) {
      expect(count).toBeLessThanOrEqual(maxSegmentEntries);
      const dayOf = (id: string) => Math.floor(Number.parseInt(id.slice(4, 16), 16) / dayMs);
      expect(dayOf(firstId)).toBe(dayOf(lastId));
    }
    expect(segments.map(({ firstId }) => firstId)).toEqual(segments.map(({ firstId }) => firstId).toSorted());
  });

  it("are split if the longest entries would not fit into a row of D1", () => {
    const long = () => Array.from({ length: 1024 }, () => String.fromCodePoint(0x4e00 + Math.floor(Math.random() * 20_000))).join("");
    const entries = Array.from({ length: 1200 }, (_, at) => entryOf(tenant, noon + at, { path: long() }));
    const segments = segmentsOf(entries);
    expect(segments.length).toBeGreaterThan(1);
    for (const { body } of segments) expect(body.length).toBeLessThanOrEqual(900_000);
    expect(segments.reduce((sum, segment) => sum + segment.entries, 0)).toBe(1200);
  });
});
