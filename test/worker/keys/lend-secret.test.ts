import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import type { KeyConfig } from "../../../src/guard/decision.ts";
import type { KeyGuard } from "../../../src/guard/key-guard.ts";
import { withLent, withOwnSecret } from "../../../src/guard/lent-secrets.ts";
import { admissionRequestOf } from "../support/admissions.ts";
import { browse } from "../support/browse.ts";
import { call, makeTenant } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { tryKey } from "../support/try-key.ts";

// A page of the documentation sends requests as a key whose secret the reader does not have at hand.

const json = { Accept: "application/json" };

async function makeLent() {
  const tenant = await makeTenant();
  const browser = browse(tenant.accountId);
  const { status, body, headers } = await browser.post(`/keys/${tenant.keyId}/send-as`, {}, json);
  expect([status, body.expires_in > 590 && body.expires_in <= 600, headers.get("Cache-Control")]).toEqual([200, true, "no-store"]);
  return { ...tenant, ...browser, lent: body.secret_key as string };
}

it("A lent secret is the key for every decision, count and log entry, also after its guard was killed, and is audited", async () => {
  const { keyId, key, lent, get } = await makeLent();
  const used = async (secretKey: string) => {
    const { status, headers } = await call("GET", "/api/v1/tasks", { key: secretKey });
    return [status, headers.get("X-RateLimit-Used")];
  };
  expect([await used(key), await used(lent), await used(key), await used(lent)]).toEqual([1, 2, 3, 4].map((count) => [200, String(count)]));
  await runInDurableObject(env.KEY_GUARD.getByName(keyId), (_: KeyGuard, state) => state.abort("killed by a test")).catch(() => {});
  expect((await used(lent))[0]).toBe(200);
  const { body } = await vi.waitFor(async () => {
    const found = await call("GET", `/api/v1/activity?key_id=${keyId}`, { key });
    expect(found.body.data.length).toBeGreaterThanOrEqual(5);
    return found;
  }, logDelay);
  expect(new Set(body.data.map(({ key_id: id, secret }: { key_id: string; secret: string }) => `${id} ${secret}`)).size).toBe(1);
  expect((await get("/settings/audit")).text).toContain("key.lent");
});

it.each([
  ["rotation", "rotate", "invalid_key"],
  ["revocation", "revoke", "revoked_key"],
  ["disabling", "disable", "disabled_key"],
])("A lent secret ends with a %s, and no more is lent to a key that is not active", async (_, action, code) => {
  const { keyId, lent, post } = await makeLent();
  expect(await tryKey(lent)).toBe(200);
  await post(`/keys/${keyId}/${action}`, { overlap_seconds: "0" });
  expect(await tryKey(lent)).toBe(code);
  expect((await post(`/keys/${keyId}/send-as`, {}, json)).status).toBe(action === "rotate" ? 200 : 409);
});

it("A lent secret that was reported as leaked ends, and its key lives on", async () => {
  const { key, lent } = await makeLent();
  expect((await call("POST", "/api/v1/keys/revoke-leaked", { body: { key: lent } })).status).toBe(202);
  expect([await tryKey(lent), await tryKey(key)]).toEqual(["invalid_key", 200]);
});

it("A key of another account is not lent", async () => {
  const [one, other] = [await makeTenant(), await makeTenant()];
  expect((await browse(one.accountId).post(`/keys/${other.keyId}/send-as`, {}, json)).status).toBe(404);
});

it("A lent secret ends at its time, gets no lease, and a key has at most the latest 20", () => {
  const config = { secretHash: "own", previousSecretHash: null, overlapEndsAt: null } as KeyConfig;
  const request = { ...admissionRequestOf("x"), secretHash: "lent", want: 100 };
  const lent = withLent([], { secretHash: "lent", standsFor: "own", until: 1000 }, 0);
  expect(withOwnSecret(lent, config, request, 999)).toMatchObject({ secretHash: "own", want: undefined });
  expect(withOwnSecret(lent, config, request, 1000)).toBe(request);
  expect(withOwnSecret(lent, { ...config, secretHash: "rotated" }, request, 999)).toBe(request);
  let many = lent;
  for (let n = 1; n <= 20; n++) many = withLent(many, { secretHash: `lent ${n}`, standsFor: "own", until: 1000 }, 0);
  expect([many.length, many[0]?.secretHash, withLent(many, { secretHash: "later", standsFor: "own", until: 3000 }, 2000).length]).toEqual([
    20,
    "lent 1",
    1,
  ]);
});
