import { describe, expect, it, onTestFinished, vi } from "vitest";
import { LookUps } from "../../../src/keys/imported/look-ups.ts";

describe("The lookups of an isolate", () => {
  it("look for all texts that wait in one statement, and for each text once", async () => {
    const lookUps = new LookUps<string>();
    // A text that was not found is looked for again after a second. A machine that is busy for so long would do that.
    vi.setSystemTime(Date.now());
    onTestFinished(() => void vi.useRealTimers());
    const statements: string[][] = [];
    const areAsked = Promise.withResolvers<void>();
    const ask = async (texts: readonly string[]) => {
      statements.push([...texts]);
      await areAsked.promise;
      return texts.map((text) => (text.startsWith("good") ? `found ${text}` : null));
    };
    const texts = Array.from({ length: 300 }, (_, n) => `${n % 3 === 0 ? "good" : "bad"}-${n}`);
    const finding = Promise.all([...texts, ...texts].map((text) => lookUps.find(text, text, ask)));
    areAsked.resolve();
    const found = await finding;
    expect(found.slice(0, 300)).toEqual(texts.map((text) => (text.startsWith("good") ? `found ${text}` : null)));
    expect(statements.length).toBeLessThanOrEqual(5);
    expect(statements.flat().toSorted()).toEqual(texts.toSorted());
    expect(lookUps.known("good-0")).toBe("found good-0");
    for (let time = 0; time < 3; time++) expect(await lookUps.find("another", "another", ask)).toBeNull();
    expect(statements.flat()).toHaveLength(301);
  });

  it("fail for the texts of a statement that fails, and look for them again when they come again", async () => {
    const lookUps = new LookUps<string>();
    let isAway = true;
    const ask = async (texts: readonly string[]) => {
      if (isAway) throw new Error("away");
      return texts.map((text) => text);
    };
    const outcomes = await Promise.allSettled(["a", "b", "b"].map((text) => lookUps.find(text, text, ask)));
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    isAway = false;
    expect(await lookUps.find("b", "b", ask)).toBe("b");
  });

  it("go on after requests were cut off while their statements ran", async () => {
    const lookUps = new LookUps<string>();
    const never = () => new Promise<never>(() => {});
    for (const text of ["a", "b", "c", "d"]) void lookUps.find(text, text, never);
    const start = Date.now();
    onTestFinished(() => void vi.useRealTimers());
    const found = lookUps.find("e", "e", async (texts) => texts.map((text) => text));
    vi.setSystemTime(start + 3001);
    expect(await found).toBe("e");
    expect(await lookUps.find("a", "a", async (texts) => texts.map((text) => text))).toBe("a");
  });
});
