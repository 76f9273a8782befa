import { describe, expect, it, vi } from "vitest";
import type { Admission, DenialCode } from "../../../src/admission/admission.ts";
import { DenialCache } from "../../../src/admission/denial-cache.ts";
import { newKeyId, newSecretKey } from "../../../src/credentials/key-format.ts";
import { VerifiedKeys } from "../../../src/credentials/verified-keys.ts";
import { hashOf } from "../../../src/crypto/hash.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";

const request = { secretHash: "hash", ip: "198.51.100.1", scope: "tasks:read", counted: true };
const now = Date.UTC(2026, 10, 21, 7, 30);
const refused = (refusal: DenialCode | null, resetsAt = now + 1_800_000): Admission => ({
  refusal,
  key: { accountId: "acc_1", accountName: "A", name: "k", scopes: [], expiresAt: null },
  rateLimit: { limit: 5, used: 5, resetsAt },
});

describe("A denial in the cache", () => {
  it("holds for a second from when the guard was asked", () => {
    const memory = new DenialCache();
    memory.remember("key_1", request, refused("rate_limit_exceeded"), now);
    expect(memory.recall("key_1", request, now + 999)?.refusal).toBe("rate_limit_exceeded");
    expect(memory.recall("key_1", request, now + 1000)).toBeNull();
  });

  it("is not recalled by a clock that steps back, which would keep it for as long", () => {
    const memory = new DenialCache();
    memory.remember("key_1", request, refused("rate_limit_exceeded"), now);
    expect(memory.recall("key_1", request, now - 1)).toBeNull();
  });

  it("never reaches into the next hour", () => {
    const memory = new DenialCache();
    memory.remember("key_1", request, refused("rate_limit_exceeded", now + 300), now);
    expect(memory.recall("key_1", request, now + 299)).not.toBeNull();
    expect(memory.recall("key_1", request, now + 300)).toBeNull();
  });

  it("is forgotten when the key is changed, also where it was asked for before and arrives after", () => {
    const memory = new DenialCache();
    memory.remember("key_1", request, refused("rate_limit_exceeded"), now);
    memory.forget("key_1", now + 10);
    expect(memory.recall("key_1", request, now + 11)).toBeNull();
    memory.remember("key_1", request, refused("rate_limit_exceeded"), now + 9);
    expect(memory.recall("key_1", request, now + 11)).toBeNull();
    memory.remember("key_1", request, refused("revoked_key"), now + 11);
    expect(memory.recall("key_1", request, now + 12)?.refusal).toBe("revoked_key");
  });

  it("takes no more room however many keys, addresses and scopes are denied: 2,000 are held of all of them", () => {
    const memory = new DenialCache();
    for (let n = 0; n < 12_000; n++) {
      const asked = { ...request, ip: `2001:db8::${(n % 7).toString(16)}:${n.toString(16)}` };
      memory.remember(`key_${n % 500}`, asked, refused("rate_limit_exceeded"), now);
      expect(memory.size).toBeLessThanOrEqual(2_000);
      expect(memory.recall(`key_${n % 500}`, asked, now)?.refusal).toBe("rate_limit_exceeded");
    }
  });

  it("goes when its second is over, whether or not anybody asks for it again", () => {
    const memory = new DenialCache();
    for (let n = 0; n < 1000; n++) memory.remember(`key_${n}`, request, refused("rate_limit_exceeded"), now + n / 2);
    expect(memory.size).toBe(1000);
    memory.remember("key_last", request, refused("rate_limit_exceeded"), now + 1500);
    expect(memory.size).toBe(1);
    memory.forget("key_last", now + 1600);
    expect(memory.size).toBe(0);
  });

  it("of a limit gives way at once to a higher limit and to a revocation", async () => {
    const { key, accountId } = await makeTenant();
    const small = await makeKey(accountId, { hourlyLimit: 1 });
    const me = () => call("GET", "/api/v1/me", { key: small.key });
    expect([(await me()).status, (await me()).status, (await me()).status]).toEqual([200, 429, 429]);
    await call("PATCH", `/api/v1/keys/${small.keyId}`, { key, body: { hourly_limit: 2 } });
    expect([(await me()).status, (await me()).status]).toEqual([200, 429]);
    await call("DELETE", `/api/v1/keys/${small.keyId}`, { key });
    expect((await me()).body.code).toBe("revoked_key");
  });

  it("is of one key, secret, address, scope and kind of request alone", () => {
    const memory = new DenialCache();
    memory.remember("key_1", request, refused("revoked_key"), now);
    for (const other of [{ secretHash: "other" }, { ip: "198.51.100.2" }, { scope: null }, { counted: false }]) {
      expect(memory.recall("key_1", { ...request, ...other }, now)).toBeNull();
    }
    expect(memory.recall("key_2", request, now)).toBeNull();
  });

  it.each([null, "invalid_key", "disabled_key", "expired_key", "ip_not_allowed", "insufficient_scope"] as const)(
    "is never one of %j",
    (refusal) => {
      const memory = new DenialCache();
      memory.remember("key_1", request, refused(refusal), now);
      expect(memory.recall("key_1", request, now)).toBeNull();
    },
  );

  it("does not keep the limit itself from being read, nor refuse a second longer than it may", async () => {
    const { key, accountId } = await makeTenant();
    const small = await makeKey(accountId, { hourlyLimit: 1 });
    await call("GET", "/api/v1/me", { key: small.key });
    for (let n = 0; n < 5; n++) expect((await call("GET", "/api/v1/me", { key: small.key })).status).toBe(429);
    expect((await call("GET", "/api/v1/rate-limit", { key: small.key })).status).toBe(200);
    await call("PATCH", `/api/v1/keys/${small.keyId}`, { key, body: { hourly_limit: 2 } });
    await new Promise((resolve) => setTimeout(resolve, 1010));
    expect((await call("GET", "/api/v1/me", { key: small.key })).status).toBe(200);
  });
});

describe("The memory of genuine keys", () => {
  const signing = { name: "a", secret: "first secret, of thirty-two characters" };
  const made = () => {
    const id = newKeyId();
    return { id, secretKey: newSecretKey(id, signing) };
  };

  it("answers the same again, for keys of ours and for made-up ones", () => {
    const keys = new VerifiedKeys([signing]);
    const { id, secretKey } = made();
    const forged = `${secretKey.slice(0, -1)}${secretKey.endsWith("x") ? "y" : "x"}`;
    for (let n = 0; n < 2; n++) {
      expect(keys.identify(secretKey)).toEqual({ secretHash: hashOf(secretKey), keyId: id });
      expect(keys.identify(forged)).toBeNull();
    }
  });

  it("holds none that is made up, so that a flood of them drives out no other", () => {
    const keys = new VerifiedKeys([signing]);
    const { secretKey } = made();
    const held = vi.spyOn(Map.prototype, "set");
    keys.identify(secretKey);
    expect(held).toHaveBeenCalledTimes(1);
    for (let n = 0; n < 20; n++) keys.identify(newSecretKey(newKeyId(), { name: "a", secret: "not the signing secret of this service" }));
    expect(held).toHaveBeenCalledTimes(1);
    held.mockRestore();
  });
});
