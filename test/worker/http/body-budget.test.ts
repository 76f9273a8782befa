import { expect, it } from "vitest";
import { BodyBudget, type Claim } from "../../../src/http/body-budget.ts";

const mib = 1024 * 1024;

/** Repeatedly claims 256 KiB for an owner, until a claim is denied. Returns all claims. The last claim in the list is the denied claim. */
function claimAll(budget: BodyBudget, owner: string, now: number): Claim[] {
  const claims: Claim[] = [];
  for (;;) {
    const claim = budget.open(owner, now);
    claims.push(claim);
    if (!claim.grow(mib / 4)) return claims;
  }
}

it("An owner can claim more of a body budget after a release, and one request can claim no more than its owner", () => {
  const budget = new BodyBudget(16 * mib);
  const now = Date.now();
  const [first, ...others] = claimAll(budget, "a", now);
  expect(first?.grow(mib)).toBe(false);
  first?.release();
  expect(others.at(-1)?.grow(mib / 4)).toBe(true);
});

it("A claim on a body budget ends after a minute if the platform ended its request without a release", () => {
  const budget = new BodyBudget(16 * mib);
  const now = Date.now();
  claimAll(budget, "a", now);
  expect(budget.open("a", now + 59_000).grow(mib)).toBe(false);
  expect(budget.open("a", now + 61_000).grow(mib)).toBe(true);
});
