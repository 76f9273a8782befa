import { describe, expect, it } from "vitest";
import { Attempts, attemptsMs, maxOfAccount } from "../../../src/guard/attempts.ts";

const attempt = (countedAt: number) => ({ about: "about", entryId: "req_1", countedAt });

describe("The attempts that a guard remembers", () => {
  it("are found for ten seconds, and forgotten at the next call after that", () => {
    const attempts = new Attempts();
    attempts.add("acc_one", "a", attempt(1000));
    expect(attempts.find("a", 1000 + attemptsMs - 1)?.entryId).toBe("req_1");
    expect(attempts.find("a", 1000 + attemptsMs)).toBeUndefined();
    attempts.add("acc_one", "b", attempt(5000));
    attempts.expire(1000 + attemptsMs);
    expect([attempts.find("a", 1500), attempts.find("b", 5000)?.entryId]).toEqual([undefined, "req_1"]);
  });

  it("are at most 10,000, the latest ones", () => {
    const attempts = new Attempts();
    for (let n = 0; n <= 10_000; n++) attempts.add("acc_two", String(n), attempt(2000));
    expect([attempts.find("0", 2000), attempts.find("1", 2000)?.about, attempts.find("10000", 2000)?.about]).toEqual([
      undefined,
      "about",
      "about",
    ]);
  });

  it("take no more than the share of their account, and those of other accounts go on", () => {
    const guards = [new Attempts(), new Attempts(), new Attempts()];
    for (const guard of guards) for (let n = 0; n < 9000; n++) guard.add("acc_three", String(n), attempt(3000));
    const held = guards.map((guard) => Array.from({ length: 9000 }, (_, n) => guard.find(String(n), 3000)).filter(Boolean).length);
    expect(held.reduce((sum, count) => sum + count, 0)).toBe(maxOfAccount);
    const other = new Attempts();
    other.add("acc_four", "a", attempt(3000));
    expect(other.find("a", 3000)).toBeDefined();
    guards[2]?.add("acc_three", "later", attempt(3000 + attemptsMs));
    expect(guards[2]?.find("later", 3000 + attemptsMs)).toBeDefined();
  });
});
