import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "../project.ts";
import { Leases, play, type Step, schedule } from "./schedules.ts";

// The client for Go replays the same file: integrations/go/schedules_test.go.

const lines = readFileSync(join(root, "integrations/schedules.txt"), "utf8").trim().split("\n");

it("The client for Node decides as in each of a thousand recorded schedules", () => {
  expect(lines).toHaveLength(1000);
  for (const [at, line] of lines.entries()) {
    const leases = new Leases();
    for (const [index, step] of (JSON.parse(line) as Step[]).entries()) {
      const done = play(leases, step);
      const expected = step[0] === "ask" ? step.slice(4) : step[0] === "lost" ? null : step.at(-1);
      expect([at, index, done]).toEqual([at, index, expected]);
    }
  }
});

it("The recorded schedules are those that the product makes today", async () => {
  // `node scripts/record-schedules.ts` writes the file again.
  for (const seed of [0, 1, 500, 999]) expect(JSON.stringify(await schedule(seed))).toBe(lines[seed]);
});
