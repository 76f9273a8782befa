import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { Admission, AdmissionRequest } from "../../../src/guard/decision.ts";
import { type Guards, requestAdmission } from "../../../src/guard/guards.ts";
import { readConfig } from "../../../src/guard/read-config.ts";
import { admissionRequestOf } from "../support/admissions.ts";
import { call, db, makeTenant } from "../support/client.ts";

// During a rollout, a Worker may call a guard of another release. The older release ignores fields that the newer release added.

describe("A guard", () => {
  it("ignores unknown fields in an admission request of a newer Worker", async () => {
    const { key, keyId } = await makeTenant();
    const newerRequest = { ...admissionRequestOf(key), region: "weur", trace: { id: "1", parent: null } };
    const admission = await env.KEY_GUARD.getByName(keyId).admit(newerRequest);
    expect(admission).toMatchObject({ refusal: null, rateLimit: { used: 1, limit: 5000 } });
  });

  it("accepts a configuration with unknown fields from a newer Worker", async () => {
    const { key, keyId, accountId } = await makeTenant();
    const config = await readConfig(db, keyId);
    if (!config) throw new Error("the new key has no configuration");
    const newerConfig = { ...config, version: config.version + 1, revision: "later", name: "Renamed", burst: 10 };
    expect(await env.KEY_GUARD.getByName(keyId).configure(newerConfig)).toMatchObject({ revision: "later", name: "Renamed" });
    expect((await call("GET", "/api/v1/me", { key })).body).toMatchObject({ key: { name: "Renamed" }, account: { id: accountId } });
  });
});

describe("A Worker", () => {
  /** Returns guards that respond like guards of a newer release. `change` converts each admission to the format of the newer release. */
  const newerGuards = (change: (admission: Admission) => unknown): Guards =>
    ({
      getByName: (keyId: string) => ({
        admit: async (request: AdmissionRequest) => change((await env.KEY_GUARD.getByName(keyId).admit(request)) as Admission),
      }),
    }) as unknown as Guards;

  it("ignores unknown fields in the admission of a newer guard", async () => {
    const { key, keyId } = await makeTenant();
    const guards = newerGuards((admission) => ({ ...admission, policies: [], rateLimit: { ...admission.rateLimit, burst: 3 } }));
    expect(await requestAdmission(guards, keyId, admissionRequestOf(key))).toMatchObject({ refusal: null, rateLimit: { used: 1 } });
  });

  it("fails with the code unavailable if a newer guard returns an unknown denial code", async () => {
    const { key, keyId } = await makeTenant();
    for (const refusal of ["account_frozen", undefined, false, ""]) {
      const guards = newerGuards((admission) => ({ ...admission, refusal }));
      await expect(requestAdmission(guards, keyId, admissionRequestOf(key)), String(refusal)).rejects.toMatchObject({
        code: "unavailable",
      });
    }
  });
});
