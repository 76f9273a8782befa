import { describe, expect, inject, it } from "vitest";
import { scriptOf, sharesOf } from "../cloudflare/account.ts";
import type { Call } from "../cloudflare/api.ts";
import { type Cloudflare, startCloudflare } from "../cloudflare/cloudflare.ts";
import { firstAccount, healthAt, joinTeam, type Team } from "../cloudflare/team.ts";

// Breaks off deploys of the real wrangler to an emulated Cloudflare API (test/cloudflare), and deploys again. A chain runs about forty deploys.

describe.runIf(inject("isLong"))("A deploy that is broken off", { tags: ["long"], timeout: 1_200_000 }, () => {
  /**
   * Names a call by its path, with names of databases instead of ids, and by its number among the calls of the same path. A later number than `most` is
   * named like `most`.
   */
  const nameOf = (call: Call, { api, account }: Cloudflare, number: number, most: number): string => {
    const named = account.databases.reduce((path, { uuid, name }) => path.replace(uuid, name), call.path);
    const earlier = api.calls.slice(0, number).filter((each) => each.method === call.method && each.path === call.path);
    return `${call.method} ${named.replaceAll(/[0-9a-f]{8}-?[0-9a-f-]{23,27}/g, "ID")} ${Math.min(most, earlier.length)}`;
  };

  /**
   * Runs deploys until one succeeds. Each deploy breaks off at the first call that changes something and at which no earlier deploy has broken off. Returns
   * the calls at which deploys broke off.
   */
  async function deployAfterFaults(emulated: Cloudflare, clone: Team, when: "before" | "after", what: "error" | "kill"): Promise<string[]> {
    const broken: string[] = [];
    for (;;) {
      emulated.api.calls.length = 0;
      let isBroken = false;
      let running: ReturnType<Team["run"]> | undefined;
      emulated.api.fault = (call, number) => {
        // One of the tests breaks off at each single query of a migration, and the other at the first two of each database.
        const name = nameOf(call, emulated, number, when === "after" ? Number.POSITIVE_INFINITY : 2);
        if (call.method === "GET" || isBroken || broken.includes(name)) return undefined;
        isBroken = true;
        broken.push(name);
        return { when, what: what === "error" ? "error" : () => running?.kill() };
      };
      running = clone.run("deploy", ["--region", "weur", "--watch", "0", ...firstAccount]);
      const { code, out, err } = await running;
      if (!isBroken) {
        expect([code, code === 0 ? "" : out + err]).toEqual([0, ""]);
        return broken;
      }
      // wrangler ignores the failure of a call that it does not need.
      expect(what === "kill" ? [null] : [0, 1]).toContain(code);
    }
  }

  async function expectWorking(emulated: Cloudflare, clone: Team): Promise<void> {
    const { databases, queues } = emulated.account;
    const script = scriptOf(emulated.account);
    expect(sharesOf(script)).toEqual([{ version_id: expect.any(String), percentage: 100 }]);
    expect(await healthAt(clone.origin)).toMatchObject({ status: "pass", releaseId: sharesOf(script)[0]?.version_id });
    expect([databases.length, queues.map(({ consumers }) => consumers.length), script.schedules]).toEqual([2, [1, 1], ["* * * * *"]]);
    const accounts = await clone.run("operator", ["accounts", "find", "--email", "ops@acme.dev", "--json", "--env", "production"]);
    expect(JSON.parse(accounts.out).data).toHaveLength(1);
  }

  // A deploy that is killed before a call leaves what the deploy that was killed after the previous call left, and the files that it wrote in between. A
  // deploy that fails at the call leaves the same files. These two tests therefore cover the third.
  const faults = [
    ["killed after", "after", "kill"],
    ["failed at", "before", "error"],
  ] as const;

  it.each(faults)("ends in a working deployment when it was %s each call that changes something", async (_, when, what) => {
    const emulated = await startCloudflare();
    const clone = joinTeam(emulated);
    try {
      expect((await deployAfterFaults(emulated, clone, when, what)).length).toBeGreaterThan(15);
      await expectWorking(emulated, clone);
    } finally {
      await emulated.stop();
      clone.remove();
    }
  });
});
