/// <reference types="@cloudflare/vitest-pool-workers/types" />
import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach } from "vitest";
import { hourMs, minuteMs } from "../../src/clock.ts";

const { MIGRATIONS, ...bindings } = env as unknown as Record<string, D1Database> & { MIGRATIONS: Record<string, D1Migration[]> };
for (const [binding, migrations] of Object.entries(MIGRATIONS)) await applyD1Migrations(bindings[binding] as D1Database, migrations);

// Windows are clock hours: no test begins in the last minute of one.
beforeEach(async () => {
  const leftOfHourMs = hourMs - (Date.now() % hourMs);
  if (leftOfHourMs < minuteMs) await new Promise((resolve) => setTimeout(resolve, leftOfHourMs));
}, 90_000);
