import { expect, it } from "vitest";
import { type Claim, claimBudget, grow, release } from "../../../src/http/body-budget.ts";

const mib = 1024 * 1024;

/**
 * Repeatedly claims 1 MiB of the body budget for a key, until a claim is denied. Returns all claims. The last claim in the list is the
 * denied claim.
 */
function claimAll(keyId: string, now: number): Claim[] {
  const claims: Claim[] = [];
  for (;;) {
    const claim = claimBudget(keyId, now);
    claims.push(claim);
    if (!grow(claim, mib)) return claims;
  }
}

it("One key can claim half of an isolate's body budget of 16 MiB, and a further key always finds room", () => {
  const now = Date.now();
  const claims = ["a", "b", "c"].map((keyId) => claimAll(keyId, now));
  expect(claims.map(({ length }) => length - 1)).toEqual([8, 4, 2]);
  const further = claimBudget("d", now);
  expect(grow(further, mib)).toBe(true);
  for (const claim of [...claims.flat(), further]) release(claim);
});

it("A key can claim more of the body budget after a release, and one request of the key can claim no more than the key", () => {
  const now = Date.now();
  const [first, ...others] = claimAll("a", now);
  const denied = others.at(-1);
  if (!first || !denied) throw new Error("the key has no claims");
  expect(grow(first, 2 * mib)).toBe(false);
  release(first);
  expect(grow(denied, mib)).toBe(true);
  for (const claim of others) release(claim);
});

it("A claim on the body budget ends after a minute if the platform ended its request without a release", () => {
  const now = Date.now();
  claimAll("a", now);
  expect(grow(claimBudget("a", now + 59_000), mib)).toBe(false);
  const later = claimBudget("a", now + 61_000);
  expect(grow(later, mib)).toBe(true);
  release(later);
});
