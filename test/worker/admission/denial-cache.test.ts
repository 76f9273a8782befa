import { describe, expect, it, vi } from "vitest";
import { DenialCache } from "../../../src/admission/denial-cache.ts";
import { newKeyId, newSecretKey } from "../../../src/credentials/key-format.ts";
import { KeyVerifier } from "../../../src/credentials/verified-keys.ts";
import type { Admission, DenialCode } from "../../../src/guard/decision.ts";

const request = { secretHash: "hash", ip: "198.51.100.1", scope: "tasks:read", counted: true, cost: 1 };
const now = Date.UTC(2026, 10, 21, 7, 30);
const admissionWith = (refusal: DenialCode | null, resetsAt = now + 1_800_000): Admission => ({
  refusal,
  key: { accountId: "acc_1", accountName: "A", logWriter: "ACTIVITY_0/0", name: "k", scopes: [], expiresAt: null },
  rateLimit: { limit: 5, used: 5, resetsAt },
  limits: [{ per: "hour", limit: 5, used: 5, resetsAt }],
  secret: "current",
});

describe("The denial cache", () => {
  it("keeps a denial for one second after the guard was asked", () => {
    const cache = new DenialCache();
    cache.store("key_1", request, admissionWith("rate_limit_exceeded"), now);
    expect(cache.recall("key_1", request, now + 999)?.refusal).toBe("rate_limit_exceeded");
    expect(cache.recall("key_1", request, now + 1000)).toBeNull();
  });

  it("keeps no denial into the next hour", () => {
    const cache = new DenialCache();
    cache.store("key_1", request, admissionWith("rate_limit_exceeded", now + 300), now);
    expect(cache.recall("key_1", request, now + 299)).not.toBeNull();
    expect(cache.recall("key_1", request, now + 300)).toBeNull();
  });

  it("drops the denials of a changed key, even those that arrive after the change", () => {
    const cache = new DenialCache();
    cache.store("key_1", request, admissionWith("rate_limit_exceeded"), now);
    cache.forget("key_1", now + 10);
    expect(cache.recall("key_1", request, now + 11)).toBeNull();
    // The call that returned this denial started before the key changed.
    cache.store("key_1", request, admissionWith("rate_limit_exceeded"), now + 9);
    expect(cache.recall("key_1", request, now + 11)).toBeNull();
    cache.store("key_1", request, admissionWith("revoked_key"), now + 11);
    expect(cache.recall("key_1", request, now + 12)?.refusal).toBe("revoked_key");
  });

  it("holds at most 2,000 denials for all keys, addresses and scopes together", () => {
    const cache = new DenialCache();
    for (let n = 0; n < 12_000; n++) {
      const requestFromIp = { ...request, ip: `2001:db8::${(n % 7).toString(16)}:${n.toString(16)}` };
      cache.store(`key_${n % 500}`, requestFromIp, admissionWith("rate_limit_exceeded"), now);
      expect(cache.size).toBeLessThanOrEqual(2_000);
      expect(cache.recall(`key_${n % 500}`, requestFromIp, now)?.refusal).toBe("rate_limit_exceeded");
    }
  });

  it("returns a denial only for the same key, secret, address, scope and kind of request", () => {
    const cache = new DenialCache();
    cache.store("key_1", request, admissionWith("revoked_key"), now);
    for (const difference of [{ secretHash: "other" }, { ip: "198.51.100.2" }, { scope: null }, { counted: false }]) {
      expect(cache.recall("key_1", { ...request, ...difference }, now)).toBeNull();
    }
    expect(cache.recall("key_2", request, now)).toBeNull();
  });

  it.each([null, "invalid_key", "disabled_key", "expired_key", "ip_not_allowed", "insufficient_scope"] as const)(
    "does not store an admission with the denial code %j",
    (refusal) => {
      const cache = new DenialCache();
      cache.store("key_1", request, admissionWith(refusal), now);
      expect(cache.recall("key_1", request, now)).toBeNull();
    },
  );
});

describe("The cache of verified keys", () => {
  const signing = { name: "a", secret: "first secret, of thirty-two characters" };
  const makeSecretKey = () => {
    const id = newKeyId();
    return { id, secretKey: newSecretKey(id, signing) };
  };

  it("does not store forged keys, so a flood of forged keys evicts no verified key", () => {
    const keys = new KeyVerifier([signing]);
    const { secretKey } = makeSecretKey();
    const mapSet = vi.spyOn(Map.prototype, "set");
    keys.verify(secretKey);
    expect(mapSet).toHaveBeenCalledTimes(1);
    for (let n = 0; n < 20; n++) keys.verify(newSecretKey(newKeyId(), { name: "a", secret: "not the signing secret of this service" }));
    expect(mapSet).toHaveBeenCalledTimes(1);
    mapSet.mockRestore();
  });
});
