import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { Admission, AdmissionRequest } from "../../../src/admission/admission.ts";
import { askAdmission, type Guards } from "../../../src/admission/guards.ts";
import { readConfig } from "../../../src/admission/read-config.ts";
import { hashOf } from "../../../src/crypto/hash.ts";
import { call, db, makeTenant } from "../support/client.ts";

// During a rollout a Worker of one release asks a guard of another, in either direction. What the later one has added is ignored by the
// earlier; what the later one misses is not needed.

const questionOf = (key: string): AdmissionRequest => ({ secretHash: hashOf(key), ip: "198.51.100.1", scope: null, counted: true });

describe("A later Worker and this guard", () => {
  it("understand each other: members that the guard does not know are ignored", async () => {
    const { key, keyId } = await makeTenant();
    const later = { ...questionOf(key), region: "weur", trace: { id: "1", parent: null } };
    const admission = await env.KEY_GUARD.getByName(keyId).admit(later);
    expect(admission).toMatchObject({ refusal: null, rateLimit: { used: 1, limit: 5000 } });
  });

  it("agree on a configuration with members that the guard does not know", async () => {
    const { key, keyId, accountId } = await makeTenant();
    const config = await readConfig(db, keyId);
    if (!config) throw new Error("the key is not there");
    const later = { ...config, version: config.version + 1, revision: "later", name: "Renamed", burst: 10 };
    expect(await env.KEY_GUARD.getByName(keyId).configure(later)).toMatchObject({ revision: "later", name: "Renamed" });
    expect((await call("GET", "/api/v1/me", { key })).body).toMatchObject({ key: { name: "Renamed" }, account: { id: accountId } });
  });
});

describe("This Worker and a later guard", () => {
  const laterGuard = (answer: (admission: Admission) => unknown): Guards =>
    ({
      getByName: (keyId: string) => ({
        admit: async (request: AdmissionRequest) => answer((await env.KEY_GUARD.getByName(keyId).admit(request)) as Admission),
      }),
    }) as unknown as Guards;

  it("understand each other: members that the Worker does not know are ignored", async () => {
    const { key, keyId } = await makeTenant();
    const later = laterGuard((admission) => ({ ...admission, policies: [], rateLimit: { ...admission.rateLimit, burst: 3 } }));
    expect(await askAdmission(later, keyId, questionOf(key))).toMatchObject({ refusal: null, rateLimit: { used: 1 } });
  });

  it("let nobody in for a reason that the Worker does not know: 503", async () => {
    const { key, keyId } = await makeTenant();
    for (const refusal of ["account_frozen", undefined, false, ""]) {
      const later = laterGuard((admission) => ({ ...admission, refusal }));
      await expect(askAdmission(later, keyId, questionOf(key)), String(refusal)).rejects.toMatchObject({ code: "unavailable" });
    }
  });
});

describe("A guard and what an earlier release has stored in it", () => {
  it("go on with a configuration that lacks the members that were added since", async () => {
    const { key, keyId } = await makeTenant();
    const guard = env.KEY_GUARD.getByName(keyId);
    expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
    await runInDurableObject(guard, (_, { storage }) => {
      const { revision, last4, ...earlier } = storage.kv.get("config") as Record<string, unknown>;
      expect([typeof revision, typeof last4]).toEqual(["string", "string"]);
      storage.kv.put("config", earlier);
    });
    expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
  });
});
