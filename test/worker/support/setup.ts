/// <reference types="@cloudflare/vitest-pool-workers/types" />
import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, aroundEach, beforeEach } from "vitest";
import { hourMs, minuteMs } from "../../../src/time/clock.ts";
import { beginTest, invocation, takeExceeded } from "./counted.ts";

const { MIGRATIONS, ...bindings } = env as unknown as Record<string, D1Database> & { MIGRATIONS: Record<string, D1Migration[]> };
for (const [binding, migrations] of Object.entries(MIGRATIONS)) await applyD1Migrations(bindings[binding] as D1Database, migrations);

// Windows are clock hours: no test begins in the last minute of one.
beforeEach(async () => {
  const leftOfHourMs = hourMs - (Date.now() % hourMs);
  if (leftOfHourMs < minuteMs) await new Promise((resolve) => setTimeout(resolve, leftOfHourMs));
}, 90_000);

// What a test does by itself, verbs that it calls and requests that it hands to an app included, counts as one invocation.
aroundEach((runTest, { task }) => {
  beginTest();
  return invocation(`the test "${task.name}" itself`, runTest, { isTest: true });
});

afterEach(() => {
  const exceeded = takeExceeded();
  if (exceeded.length > 0) throw new Error(`Too near to what Cloudflare allows an invocation (docs/limits.md):\n${exceeded.join("\n")}`);
});
