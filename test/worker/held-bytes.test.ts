import { expect, it } from "vitest";
import { grow, hold, release } from "../../src/http/held-bytes.ts";

const mib = 1024 * 1024;

it("An isolate holds 16 MiB of bodies at most, whoever sent them, and takes more as soon as some are released", () => {
  const now = Date.now();
  const holdings = Array.from({ length: 17 }, () => hold(now));
  expect(holdings.map((holding) => grow(holding, mib))).toEqual([...Array(16).fill(true), false]);
  const [first, , last] = [holdings[0], null, holdings[16]];
  if (!first || !last) throw new Error("there are none");
  expect(grow(first, 2 * mib)).toBe(false);
  release(first);
  expect(grow(last, mib)).toBe(true);
  for (const holding of holdings) release(holding);
});

it("What a request held whose client went away, and whose code the platform runs no further, is given back after a minute", () => {
  const now = Date.now();
  for (let n = 0; n < 16; n++) expect(grow(hold(now), mib)).toBe(true);
  expect(grow(hold(now + 59_000), mib)).toBe(false);
  const later = hold(now + 61_000);
  expect(grow(later, mib)).toBe(true);
  release(later);
});
