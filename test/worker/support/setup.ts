/// <reference types="@cloudflare/vitest-pool-workers/types" />
import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, aroundEach, beforeEach } from "vitest";
import { hourMs, hourStart, secondMs } from "../../../src/lib/time/clock.ts";
import { beginTest, invocation, takeAuditedLate, takeExceeded } from "./counted.ts";
import { untilClockReaches } from "./real-time.ts";

const { MIGRATIONS, ...bindings } = env as unknown as Record<string, D1Database> & { MIGRATIONS: Record<string, D1Migration[]> };
for (const [binding, migrations] of Object.entries(MIGRATIONS)) await applyD1Migrations(bindings[binding] as D1Database, migrations);

// A limit window is one clock hour. No test starts in the last seconds of an hour, so that a short test stays within one window.
beforeEach(async () => {
  const nextHour = hourStart(Date.now()) + hourMs;
  if (nextHour - Date.now() < 5 * secondMs) await untilClockReaches(nextHour);
});

// The test itself counts as one invocation. This invocation includes the functions that the test calls and the requests that the test
// passes to an app.
aroundEach((runTest, { task }) => {
  beginTest();
  return invocation(`the test "${task.name}" itself`, runTest, { isTest: true });
});

afterEach(() => {
  const exceeded = takeExceeded();
  const late = takeAuditedLate();
  if (late.length > 0) throw new Error(`An audit entry was written outside of the batch of its change, by ${late.join(", ")}`);
  if (exceeded.length > 0) throw new Error(`Too near to Cloudflare's limits of an invocation (docs/limits.md):\n${exceeded.join("\n")}`);
});
