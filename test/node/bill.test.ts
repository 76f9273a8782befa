import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { amountIn, billOf, billText, needsAt } from "../../scripts/bill.ts";
import { counted } from "../../scripts/bill-figures.ts";
import { root } from "./project.ts";

describe("The bill of a month", () => {
  it("is in the documentation, as the command prints it", () => {
    const bills = ["10M", "100M", "1B"].map((text) => billOf(amountIn(text), 2500));
    expect(readFileSync(join(root, "docs/scale.md"), "utf8")).toContain(billText(bills, 2500));
  });

  it("is the price of the plan if everything is included, and never less with more requests", () => {
    const [one, more] = [billOf(1000, 1), billOf(2000, 1)];
    // Log writers are always active, and need more than the plan includes.
    expect(one.lines.filter(([, dollars]) => dollars > 0).map(([what]) => what)).toEqual(["the plan", "the time of objects"]);
    expect(more.total).toBeGreaterThanOrEqual(one.total);
  });

  it("uses the counts of the bench at its two paces, and values between them at other paces", () => {
    const [slow, fast] = counted;
    const { pace: slowPace, ...ofSlow } = slow;
    const { pace: fastPace, ...ofFast } = fast;
    expect([needsAt(slowPace), needsAt(slowPace / 10)]).toEqual([ofSlow, ofSlow]);
    expect(needsAt(10 * fastPace).objectRows).toBeCloseTo(ofFast.objectRows);
    const { objectRows } = needsAt(0.2);
    expect(objectRows < ofSlow.objectRows && objectRows > ofFast.objectRows).toBe(true);
  });

  it.each(["", "x", "0", "-1", "10 M", "1G"])("rejects the amount %j", (text) => expect(() => amountIn(text)).toThrow("is not a number"));
});
