import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { forgetJobs, lastRunAt, readJobRuns, recordJobRun, silentSince } from "../../../src/db/job-runs.ts";
import { dayMs, minuteMs } from "../../../src/lib/time/clock.ts";
import { db } from "../support/client.ts";
import { countingD1 } from "../support/d1.ts";

/** Returns a database whose methods throw. */
const failingD1 = () =>
  new Proxy({} as D1Database, {
    get: () => () => {
      throw new Error("D1_ERROR: Network connection lost");
    },
  });

const job = { name: "of_the_health_test", description: "", cursor: "", tookMs: 1, done: 0, hasMore: false, error: null };

it("A burst of health checks queries D1 once, and a failure of D1 shows within two seconds", async () => {
  const { DB, counts } = countingD1();
  const app = createApp({ isLocal: true });
  const healthWith = async (bindings: Env) =>
    (await app.fetch(new Request("http://localhost/health"), bindings, createExecutionContext())).status;
  const now = vi.spyOn(Date, "now");
  try {
    const start = Date.now() + 60_000;
    now.mockReturnValue(start);
    // Without this run, the service would be unhealthy if the last run of a job in another test were four minutes ago.
    await recordJobRun(db, { ...job, ranAt: start });
    for (let check = 0; check < 50; check++) expect(await healthWith({ ...env, DB })).toBe(200);
    // The statements check that D1 responds, which databases are full, and when the scheduled jobs ran.
    expect(counts.statements).toBe(3);
    now.mockReturnValue(start + 1999);
    expect(await healthWith({ ...env, DB: failingD1() })).toBe(200);
    now.mockReturnValue(start + 2000);
    expect(await healthWith({ ...env, DB: failingD1() })).toBe(503);
  } finally {
    now.mockRestore();
    await forgetJobs(db, [job.name]);
  }
});

it("A health check asks at most eight log writers, and each check others", async () => {
  const app = createApp({ isLocal: true });
  const asked = new Set<string>();
  let calls = 0;
  const countingWriters = new Proxy(env.ACTIVITY_WRITER, {
    get(writers, member) {
      if (member !== "getByName") return Reflect.get(writers, member) as unknown;
      return (name: string, options?: DurableObjectNamespaceGetDurableObjectOptions) => {
        asked.add(name);
        calls++;
        return writers.getByName(name, options);
      };
    },
  });
  const now = vi.spyOn(Date, "now");
  try {
    const start = Date.now() + 120_000;
    for (let check = 0; check < 4; check++) {
      now.mockReturnValue(start + check * 3000);
      const bindings = { ...env, ACTIVITY_WRITER: countingWriters, ACTIVITY_WRITERS: "32" } as unknown as Env;
      await app.fetch(new Request("http://localhost/health"), bindings, createExecutionContext());
    }
  } finally {
    now.mockRestore();
  }
  expect(calls).toBe(32);
  expect(asked.size).toBeGreaterThan(8);
});

it("The service is unhealthy if the scheduled jobs have not run for five minutes", async () => {
  const app = createApp({ isLocal: true });
  const now = vi.spyOn(Date, "now");
  // Later than every run of a job in other tests.
  const ranAt = dayMs + Math.max(Date.now(), lastRunAt([...(await readJobRuns(db)).values()]) ?? 0);
  const healthAt = async (timeMs: number) => {
    now.mockReturnValue(timeMs);
    const response = await app.fetch(new Request("http://localhost/health"), env, createExecutionContext());
    return [response.status, ((await response.json()) as { output?: string }).output ?? ""] as const;
  };
  try {
    await recordJobRun(db, { ...job, ranAt });
    expect((await healthAt(ranAt + 5 * minuteMs - 1))[0]).toBe(200);
    const [status, output] = await healthAt(ranAt + 5 * minuteMs + 2000);
    expect([status, output]).toEqual([503, expect.stringContaining("No scheduled job has run since")]);
    await recordJobRun(db, { ...job, ranAt: ranAt + 5 * minuteMs });
    expect((await healthAt(ranAt + 5 * minuteMs + 4000))[0]).toBe(200);
  } finally {
    now.mockRestore();
    await forgetJobs(db, [job.name]);
  }
});

it("A new deployment has five minutes for the first run of its scheduled jobs", () => {
  const deployedAt = Date.parse("2026-11-27T03:00:00Z");
  const after = (ms: number, jobs: { ranAt: number }[] = []) => silentSince(jobs, deployedAt, deployedAt + ms);
  expect([after(5 * minuteMs - 1), after(5 * minuteMs)]).toEqual([null, deployedAt]);
  expect(after(5 * minuteMs, [{ ranAt: deployedAt + minuteMs }])).toBeNull();
  expect(silentSince([], null, deployedAt)).toBeNull();
});
