import { describe, expect, it } from "vitest";
import { maskKeys } from "../../src/credentials/mask-keys.ts";

/** Returns the minimum CPU time of eight measurements, in microseconds. Other work on the machine can only increase a measured time. */
function measureCpu(text: string, maxLength?: number): number {
  const runs = Array.from({ length: 8 }, () => {
    const before = process.cpuUsage();
    for (let n = 0; n < 20; n++) maskKeys(text, maxLength);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  });
  return Math.min(...runs);
}

const kib = 1024;
const hostileTexts: [name: string, text: (length: number) => string][] = [
  ["a percent sign that is encoded many times", (length) => `/${"%25".repeat(length / 3)}`],
  ["a character that is encoded many times", (length) => `/%${"25".repeat(length / 2)}41`],
  ["encoded percent codes", (length) => "%25%32%35".repeat(length / 9)],
  ["many prefixes of keys", (length) => "dvo_".repeat(length / 4)],
  ["a key without an end", (length) => `dvo_${"4fPq2rT8vX0zB6dH".repeat(length / 16)}`],
  ["many sequences that look almost random", (length) => `${"a1".repeat(10)}/`.repeat(length / 21)],
  ["punctuation between letters", (length) => "dvo_4fPq2rT8vX0zB6dH%20_%20_a/".repeat(length / 30)],
  ["only punctuation", (length) => "%_-".repeat(length / 3)],
];

describe.each(hostileTexts)("The masking of %s", (_, text) => {
  it("takes no more CPU time for 64 KiB than for 4 KiB if the result is limited to 1 KiB", () => {
    expect(measureCpu(text(64 * kib), kib)).toBeLessThan(2 * measureCpu(text(4 * kib), kib) + 2000);
  });

  it("takes CPU time in proportion to the length of the result", () => {
    expect(measureCpu(text(64 * kib), 16 * kib)).toBeLessThan(3.5 * measureCpu(text(64 * kib), 8 * kib) + 2000);
  });
});
