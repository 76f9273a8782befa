import { describe, expect, it } from "vitest";
import { LookUps } from "../../../src/keys/imported/look-ups.ts";

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("The look-ups of an isolate", () => {
  it("look for all texts that wait in one statement, and for each text once", async () => {
    const lookUps = new LookUps<string>();
    const statements: string[][] = [];
    const ask = async (texts: readonly string[]) => {
      statements.push([...texts]);
      await wait(20);
      return texts.map((text) => (text.startsWith("good") ? `found ${text}` : null));
    };
    const texts = Array.from({ length: 300 }, (_, n) => `${n % 3 === 0 ? "good" : "bad"}-${n}`);
    const found = await Promise.all([...texts, ...texts].map((text) => lookUps.find(text, text, ask)));
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
      await wait(5);
      if (isAway) throw new Error("away");
      return texts.map((text) => text);
    };
    const outcomes = await Promise.allSettled(["a", "b", "b"].map((text) => lookUps.find(text, text, ask)));
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    isAway = false;
    expect(await lookUps.find("b", "b", ask)).toBe("b");
  });

  it("go on after requests were cut off while their statements ran", { timeout: 10_000 }, async () => {
    const lookUps = new LookUps<string>();
    const never = () => new Promise<never>(() => {});
    for (const text of ["a", "b", "c", "d"]) void lookUps.find(text, text, never);
    expect(await lookUps.find("e", "e", async (texts) => texts.map((text) => text))).toBe("e");
    expect(await lookUps.find("a", "a", async (texts) => texts.map((text) => text))).toBe("a");
  });
});
