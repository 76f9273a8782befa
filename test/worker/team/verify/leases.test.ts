import { beforeAll, describe, expect, it, vi } from "vitest";
import { KeyAdmission } from "../../../../src/guard/key-admission.ts";
import { newId } from "../../../../src/lib/ids.ts";
import { secondMs } from "../../../../src/lib/time/clock.ts";
import { call, makeKey, makeTenant, within2s } from "../../support/client.ts";
import { operate } from "../../support/operate.ts";
import { makeToken, usedOf, verifiedEntries } from "../../support/team.ts";

// Leases for the team's own processes. The rules of leases are simulated in test/node/leases.

let token: string;
beforeAll(async () => {
  token = await makeToken(["verify"]);
});

const request = { method: "GET", path: "/orders/7", route: "/orders/{id}", report: false };
const askFor = async (keys: object[], as = token) => (await operate("POST", "/leases", { holder: "api-1", protocol: 1, keys }, as)).body;
const leaseOf = async (key: string, want = 8) => (await askFor([{ key, request, want }])).data[0];
const store = async (entries: object[], as = token): Promise<[number, string | null][]> =>
  (await operate("POST", "/entries", { holder: "api-1", entries }, as)).body.data.map(
    ({ status, code }: { status: number; code: string | null }) => [status, code],
  );
const entryOf = (lease: string, more: object = {}) => ({
  id: newId("req", Date.now()),
  lease,
  status: 200,
  duration_ms: 3,
  ...request,
  ...more,
});

describe("A lease for a process", () => {
  it("comes with the decision, counts its units, and gives back what is left", async () => {
    const tenant = await makeTenant();
    const given = await leaseOf(tenant.key);
    expect(given).toMatchObject({ index: 0, allowed: true, retry: false, units: 8, allowed_ips: [], key: { id: tenant.keyId } });
    expect(given.for_ms).toBeGreaterThan(1500);
    expect(given.rate_limits[0].used).toBe(1);
    const renewed = (await askFor([{ lease: given.lease, want: 4, back: [{ lease: given.lease, unused: 5 }] }])).data[0];
    expect(renewed).toMatchObject({ allowed: true, units: 4 });
    // One request of the process's own, three of the first lease, and none of the second.
    await askFor([{ lease: renewed.lease, want: 0, back: [{ lease: renewed.lease, unused: 4 }] }]);
    expect(await usedOf(tenant)).toBe(4);
    await askFor([{ lease: renewed.lease, want: 0, back: [{ lease: renewed.lease, unused: 4 }] }]);
    expect(await usedOf(tenant)).toBe(4);
  });

  it("is given to each of 200 keys by itself, and to none that is denied or has a limit per second", async () => {
    const { accountId } = await makeTenant();
    const good = await makeKey(accountId);
    const fast = await makeKey(accountId, { otherLimits: [{ per: "second", limit: 100 }] });
    const keys = ["dvo_nothing", good.key, "", fast.key, ...Array.from({ length: 196 }, () => "sk_made_up")];
    const { data } = await askFor(keys.map((key) => ({ key, request, want: 8 })));
    expect(data).toHaveLength(200);
    const shown = data
      .slice(0, 4)
      .map(({ status, code, units }: { status: number; code: string | null; units: number }) => [status, code, units]);
    expect(shown).toEqual([
      [401, "invalid_key", 0],
      [200, null, 8],
      [401, "missing_key", 0],
      [200, null, 0],
    ]);
  });

  it("holds a change of its key back until it has ended, and is denied then", async () => {
    const { accountId, key: admin } = await makeTenant();
    const { keyId, key } = await makeKey(accountId);
    const { lease } = await leaseOf(key);
    const startedAt = Date.now();
    await call("DELETE", `/api/v1/keys/${keyId}`, { key: admin });
    const took = Date.now() - startedAt;
    expect(took).toBeGreaterThan(1.9 * secondMs);
    expect(took).toBeLessThan(3 * secondMs);
    const [renewed] = (await askFor([{ lease, want: 8 }])).data;
    expect(renewed).toMatchObject({ allowed: false, status: 401, code: "revoked_key", lease: null });
  });

  it("holds back no other key if one guard fails, and gives up nothing of what comes back with a denied request", async () => {
    const [busy, good] = [await makeTenant(), await makeTenant()];
    const [one, other] = [await leaseOf(busy.key), await leaseOf(good.key)];
    const fail = vi.spyOn(KeyAdmission.prototype, "settle").mockImplementation(() => {
      throw new Error("made by a test");
    });
    const { data } = await askFor([
      { lease: one.lease, want: 0, back: [{ lease: one.lease, unused: 8 }] },
      { lease: other.lease, want: 8 },
    ]);
    fail.mockRestore();
    expect(data).toMatchObject([
      { allowed: false, status: 503, retry: true },
      { allowed: true, retry: false, units: 8 },
    ]);
    const full = await makeTenant({ hourlyLimit: 100 });
    const { lease } = await leaseOf(full.key, 6);
    await askFor([{ key: full.key, request: { ...request, cost: 90 }, want: 0 }]);
    const denied = await askFor([{ key: full.key, request: { ...request, cost: 5 }, want: 0 }]);
    expect(denied.data[0].status).toBe(429);
    await askFor([{ key: full.key, request: { ...request, cost: 5 }, want: 0, back: [{ lease, unused: 6 }] }]);
    await within2s(
      () => usedOf(full),
      (used) => used < 100,
    );
  });

  it("works for its own token alone, and not if it is changed", async () => {
    const tenant = await makeTenant();
    const { lease } = await leaseOf(tenant.key);
    const other = await makeToken(["verify"]);
    const bound = await makeToken(["verify"], { accounts: [(await makeTenant()).accountId] });
    for (const [text, as] of [
      [lease, other],
      [lease, bound],
      [`${lease}x`, token],
      ["", token],
    ] as const)
      expect((await askFor([{ lease: text, want: 8 }], as)).data[0]).toMatchObject({ allowed: false, status: 401, lease: null });
    expect(await store([entryOf(lease)], other)).toEqual([[422, "invalid_receipt"]]);
  });

  it("puts each entry into the log once, at a time within its lease, and no more than its units", async () => {
    const tenant = await makeTenant();
    const { lease } = await leaseOf(tenant.key, 3);
    const now = Date.now();
    const entries = [
      entryOf(lease, { status: 201, user_agent: "sample/2.1" }),
      entryOf(lease, { id: newId("req", now - 3_600_000), status: 404 }),
      entryOf(lease, { id: newId("req", now + 3_600_000), status: 500, ip: "203.0.113.7:5000" }),
      entryOf(lease),
    ];
    const taken: [number, string | null] = [200, null];
    expect(await store(entries)).toEqual([taken, taken, taken, [422, "invalid_receipt"]]);
    expect(await store(entries.slice(0, 3))).toEqual([taken, taken, taken]);
    expect(await store([entryOf(lease, { id: "req_1" }), {}, null as never])).toEqual([
      [422, "invalid_receipt"],
      [422, "invalid_receipt"],
      [422, "invalid_receipt"],
    ]);
    interface Shown {
      status: number;
      at: string;
      ip: string | null;
      user_agent: string | null;
    }
    const shown: Shown[] = await within2s(
      () => verifiedEntries(tenant),
      (all: Shown[]) => all.length === 4,
    );
    expect(shown.map(({ status }) => status).toSorted()).toEqual(
      [200, 201, 404, 500].map((status) => (status === 200 ? null : status)).toSorted(),
    );
    // The times of the entries lie within the time of their lease.
    for (const { at } of shown) expect(Math.abs(Date.parse(at) - now)).toBeLessThan(2500);
    expect(shown.find(({ status }) => status === 500)?.ip).toBe("203.0.113.7");
    expect(shown.find(({ status }) => status === 201)?.user_agent).toBe("sample/2.1");
  });

  it("is in the log without a status if the process does not know the response, and gets a status later", async () => {
    const tenant = await makeTenant();
    const { lease } = await leaseOf(tenant.key);
    const { status: _, duration_ms: __, ...open } = entryOf(lease, { path: "/open" });
    const taken: [number, string | null] = [200, null];
    expect(await store([open, open])).toEqual([taken, taken]);
    const statuses = async () =>
      (await verifiedEntries(tenant))
        .filter(({ path }: { path: string }) => path === "/open")
        .map(({ status }: { status: number }) => status);
    await within2s(statuses, (found) => found.length === 1 && found[0] === null);
    expect(await store([{ ...open, status: 204 }, { ...open, status: 500 }, open])).toEqual([taken, [409, "conflict"], taken]);
    await within2s(statuses, (found) => found.join() === "204");
  });
});
