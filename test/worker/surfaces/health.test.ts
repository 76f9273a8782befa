import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { countingD1 } from "../support/d1.ts";

/** Returns a database whose methods throw. */
const failingD1 = () =>
  new Proxy({} as D1Database, {
    get: () => () => {
      throw new Error("D1_ERROR: Network connection lost");
    },
  });

it("A burst of health checks queries D1 once, and a failure of D1 shows within two seconds", async () => {
  const { DB, counts } = countingD1();
  const app = createApp({ isLocal: true });
  const healthWith = async (bindings: Env) =>
    (await app.fetch(new Request("http://localhost/health"), bindings, createExecutionContext())).status;
  const now = vi.spyOn(Date, "now");
  try {
    const start = Date.now() + 60_000;
    now.mockReturnValue(start);
    for (let check = 0; check < 50; check++) expect(await healthWith({ ...env, DB })).toBe(200);
    // The first statement checks that D1 responds. The second statement reads which databases are full.
    expect(counts.statements).toBe(2);
    now.mockReturnValue(start + 1999);
    expect(await healthWith({ ...env, DB: failingD1() })).toBe(200);
    now.mockReturnValue(start + 2000);
    expect(await healthWith({ ...env, DB: failingD1() })).toBe(503);
  } finally {
    now.mockRestore();
  }
});
