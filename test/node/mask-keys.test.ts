import { describe, expect, it } from "vitest";
import { maskKeys } from "../../src/credentials/mask-keys.ts";

/** The least CPU time of several runs, in microseconds: what else the machine does only adds to it. */
function cpuOf(text: string, maxLength?: number): number {
  const runs = Array.from({ length: 8 }, () => {
    const before = process.cpuUsage();
    for (let n = 0; n < 20; n++) maskKeys(text, maxLength);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  });
  return Math.min(...runs);
}

const kib = 1024;
const hostile: [what: string, text: (length: number) => string][] = [
  ["% encoded again and again", (length) => `/${"%25".repeat(length / 3)}`],
  ["one character encoded again and again", (length) => `/%${"25".repeat(length / 2)}41`],
  ["% and its code, encoded", (length) => "%25%32%35".repeat(length / 9)],
  ["the start of a key", (length) => "dvo_".repeat(length / 4)],
  ["keys without an end", (length) => `dvo_${"4fPq2rT8vX0zB6dH".repeat(length / 16)}`],
  ["runs that nearly look random", (length) => `${"a1".repeat(10)}/`.repeat(length / 21)],
  ["marks between letters", (length) => "dvo_4fPq2rT8vX0zB6dH%20_%20_a/".repeat(length / 30)],
  ["nothing but marks", (length) => "%_-".repeat(length / 3)],
];

describe.each(hostile)("To mask %s", (_, text) => {
  it("takes as long for 64 KiB as for 4", () => {
    expect(cpuOf(text(64 * kib), kib)).toBeLessThan(2 * cpuOf(text(4 * kib), kib) + 2000);
  });

  it("takes twice as long where twice as much is kept", () => {
    expect(cpuOf(text(64 * kib), 16 * kib)).toBeLessThan(3.5 * cpuOf(text(64 * kib), 8 * kib) + 2000);
  });
});
