/// <reference types="@cloudflare/vitest-pool-workers/types" />
import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach } from "vitest";
import { hourMs, minuteMs } from "../../src/clock.ts";

await applyD1Migrations(env.DB, (env as unknown as { MIGRATIONS: D1Migration[] }).MIGRATIONS);

// Windows are clock hours: no test begins in the last minute of one.
beforeEach(async () => {
  const leftOfHourMs = hourMs - (Date.now() % hourMs);
  if (leftOfHourMs < minuteMs) await new Promise((resolve) => setTimeout(resolve, leftOfHourMs));
}, 90_000);
