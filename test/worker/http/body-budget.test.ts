import { expect, it } from "vitest";
import { type Claim, grow, hold, release } from "../../../src/http/body-budget.ts";

const mib = 1024 * 1024;

/** Begins requests of a key that each hold a MiB, until one may not. Returns them, the refused one last. */
function holdAll(keyId: string, now: number): Claim[] {
  const holdings: Claim[] = [];
  for (;;) {
    const next = hold(keyId, now);
    holdings.push(next);
    if (!grow(next, mib)) return holdings;
  }
}

it("One key holds half of an isolate's 16 MiB of bodies at most, and leaves room for every other", () => {
  const now = Date.now();
  const held = ["a", "b", "c"].map((keyId) => holdAll(keyId, now));
  expect(held.map(({ length }) => length - 1)).toEqual([8, 4, 2]);
  const next = hold("d", now);
  expect(grow(next, mib)).toBe(true);
  for (const holding of [...held.flat(), next]) release(holding);
});

it("A key may hold more as soon as some is released, and a request no more than its key may", () => {
  const now = Date.now();
  const [first, ...others] = holdAll("a", now);
  const last = others.at(-1);
  if (!first || !last) throw new Error("there are none");
  expect(grow(first, 2 * mib)).toBe(false);
  release(first);
  expect(grow(last, mib)).toBe(true);
  for (const holding of others) release(holding);
});

it("What a request held whose client went away, and whose code the platform runs no further, is given back after a minute", () => {
  const now = Date.now();
  holdAll("a", now);
  expect(grow(hold("a", now + 59_000), mib)).toBe(false);
  const later = hold("a", now + 61_000);
  expect(grow(later, mib)).toBe(true);
  release(later);
});
