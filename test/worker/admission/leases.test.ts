import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { parseRateLimit } from "ratelimit-header-parser";
import { describe, expect, it, vi } from "vitest";
import type { KeyGuard } from "../../../src/guard/key-guard.ts";
import { secondMs } from "../../../src/lib/time/clock.ts";
import { firstLogWriter } from "../../../src/log/databases.ts";
import { writerAt } from "../../../src/log/writers.ts";
import { call, makeKey, makeTenant, type Tenant, within2s } from "../support/client.ts";
import { operate } from "../support/operate.ts";

// What leases may not change for a client, and what they cost a change. The rules themselves are simulated in test/node/leases.

const getMe = ({ key }: Pick<Tenant, "key">) => call("GET", "/api/v1/tasks?limit=1", { key });

const kill = (keyId: string) =>
  runInDurableObject(env.KEY_GUARD.getByName(keyId), (_: KeyGuard, state) => state.abort("killed by a test")).catch(() => {});

/** Sends requests until this isolate holds a lease of the key. */
async function warmUp(tenant: Pick<Tenant, "key">): Promise<void> {
  for (let n = 0; n < 4; n++) expect((await getMe(tenant)).status).toBe(200);
}

/** Sends requests without a pause until `stop` is called. Returns when each of them began, and its status. */
function sendAlways(tenant: Pick<Tenant, "key">) {
  const sent: { at: number; status: number }[] = [];
  let isOver = false;
  const sending = (async () => {
    while (!isOver) {
      const at = Date.now();
      sent.push({ at, status: (await getMe(tenant)).status });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  return {
    /** Waits until what was sent is enough. */
    until: (isEnough: (all: typeof sent) => boolean) => vi.waitUntil(() => isEnough(sent), { timeout: 20_000 }),
    stop: async () => {
      isOver = true;
      await sending;
      return sent;
    },
  };
}

const decided = async () => {
  const { text } = await operate("GET", "/../../metrics");
  const sum = (pattern: RegExp) => [...text.matchAll(pattern)].reduce((all, [, value]) => all + Number(value), 0);
  return { near: sum(/^dvo_decisions_total\{by="lease".*\} (\d+)$/gm), given: sum(/^dvo_lease_units_total\{outcome="given".*\} (\d+)$/gm) };
};

describe("A busy key", () => {
  it("is decided near the request, and each response counts one more", async () => {
    const before = await decided();
    const tenant = await makeTenant();
    const used: number[] = [];
    for (let n = 0; n < 40; n++) used.push(Number((await getMe(tenant)).headers.get("X-RateLimit-Used")));
    expect(used).toEqual(Array.from({ length: 40 }, (_, index) => index + 1));
    const { body } = await call("GET", "/api/v1/rate-limit", { key: tenant.key });
    expect(body.policies[0].used).toBe(40);
    // The log writer stores its counters with the next flush.
    const flushed = async () => {
      await writerAt(env, firstLogWriter).flush(tenant.accountId);
      return decided();
    };
    await within2s(flushed, ({ near, given }) => near >= before.near + 30 && given > before.given);
  });

  it("never refuses a client earlier than its headers say, for a whole window", async () => {
    const tenant = await makeTenant({ hourlyLimit: 300 });
    let [left, served] = [1, 0];
    while (left > 0) {
      const { status, headers } = await getMe(tenant);
      expect(status).toBe(200);
      served++;
      // Version 0.1.0 of the library reads an older form of `RateLimit`, so it gets the older fields alone.
      const older = Object.fromEntries([...headers].filter(([name]) => name.startsWith("x-ratelimit-")));
      left = parseRateLimit(older)?.remaining ?? 0;
    }
    expect([served, (await getMe(tenant)).status]).toEqual([300, 429]);
  });

  const changes: [string, (tenant: Tenant, admin: string) => Promise<{ status: number }>, number][] = [
    ["is revoked", ({ keyId }, key) => call("DELETE", `/api/v1/keys/${keyId}`, { key }), 401],
    ["is disabled", ({ keyId }, key) => call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { status: "disabled" } }), 401],
    ["loses a scope", ({ keyId }, key) => call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { scopes: ["keys:read"] } }), 403],
    [
      "gets other addresses",
      ({ keyId }, key) => call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { allowed_ips: ["203.0.113.9"] } }),
      403,
    ],
    ["gets a limit that is used up", ({ keyId }, key) => call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { hourly_limit: 1 } }), 429],
    ["is reported as leaked", ({ key: leaked }, key) => call("POST", "/api/v1/keys/revoke-leaked", { key, body: { key: leaked } }), 401],
    ["loses its account", ({ accountId }) => operate("POST", `/accounts/${accountId}/suspend`), 403],
    [
      "is rotated without an overlap",
      ({ keyId }, key) => call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds: 0 } }),
      401,
    ],
  ];
  it.each(changes)(
    "that %s under load is denied from the response on, which comes within 1.5 s of a call that waits for no lease",
    async (_, change, status) => {
      const { accountId, key: admin } = await makeTenant();
      const key = await makeKey(accountId, { scopes: ["tasks:read", "keys:read"] });
      await warmUp(key);
      const load = sendAlways(key);
      const quiet = await makeTenant();
      const startedAt = Date.now();
      const timed = async (changing: ReturnType<typeof change>) => ({ ...(await changing), ms: Date.now() - startedAt });
      // A quiet key beside it shows how long this machine takes for the same change without leases.
      const [changed, without] = await Promise.all([timed(change({ accountId, ...key }, admin)), timed(change(quiet, quiet.key))]);
      const changedAt = startedAt + changed.ms;
      await load.until((sent) => sent.filter(({ at }) => at > changedAt).length > 5);
      const sent = await load.stop();
      expect(changed.status).toBeLessThan(300);
      expect(changed.ms - without.ms).toBeLessThan(1.5 * secondMs + 500);
      const after = sent.filter(({ at }) => at > changedAt);
      expect(new Set(after.map((each) => each.status))).toEqual(new Set([status]));
      // One client of one isolate never sees a denial and then a success.
      const firstDenial = sent.findIndex((each) => each.status === status);
      expect(sent.slice(firstDenial).filter((each) => each.status === 200)).toEqual([]);
    },
  );

  it("that is not used changes without a wait", async () => {
    const { accountId, key: admin } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    const startedAt = Date.now();
    await call("DELETE", `/api/v1/keys/${keyId}`, { key: admin });
    expect(Date.now() - startedAt).toBeLessThan(secondMs);
  });

  it("is never over its limit while its guard is killed again and again, and what a kill wastes is bounded", async () => {
    const limit = 400;
    const tenant = await makeTenant({ hourlyLimit: limit });
    let [admitted, failed, kills, isFull] = [0, 0, 0, false];
    while (!isFull) {
      const statuses = await Promise.all(Array.from({ length: 20 }, async () => (await getMe(tenant)).status));
      admitted += statuses.filter((status) => status === 200).length;
      failed += statuses.filter((status) => status >= 500).length;
      isFull = statuses.every((status) => status === 429);
      if (++kills % 4 === 0) await kill(tenant.keyId);
    }
    expect(admitted).toBeLessThanOrEqual(limit);
    expect(admitted).toBeGreaterThanOrEqual(limit - (63 + 64) * Math.ceil(kills / 4) - failed);
  });

  const repeated: [string, (key: Tenant, admin: string) => Promise<{ status: number }>, number][] = [
    ["was revoked", ({ keyId }, key) => call("DELETE", `/api/v1/keys/${keyId}`, { key }), 401],
    ["was reported as leaked", ({ key: leaked }, key) => call("POST", "/api/v1/keys/revoke-leaked", { key, body: { key: leaked } }), 401],
    ["has lost its account", ({ accountId }) => operate("POST", `/accounts/${accountId}/suspend`), 403],
  ];
  it.each(repeated)(
    "that %s is denied from a repeated call on, although leases of before are out and its guard has restarted",
    async (_, change, status) => {
      const { accountId, key: admin } = await makeTenant();
      const key = { accountId, ...(await makeKey(accountId)) };
      await warmUp(key);
      const load = sendAlways(key);
      const first = change(key, admin);
      await new Promise((resolve) => setTimeout(resolve, 50));
      // Only this object: other tests run at the same time.
      await kill(key.keyId);
      await change(key, admin);
      const returnedAt = Date.now();
      await first;
      await new Promise((resolve) => setTimeout(resolve, 200));
      const after = (await load.stop()).filter(({ at }) => at > returnedAt);
      expect(new Set(after.map((each) => each.status))).toEqual(new Set([status]));
    },
  );

  it("with limits of its account counts exactly in the figures of the account", async () => {
    const { accountId, ...key } = await makeTenant();
    await operate("PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit: 5000 }] });
    for (let n = 0; n < 45; n++) await getMe(key);
    const { body } = await call("GET", "/api/v1/account/limits", { key: key.key });
    expect([body.policies[0].used, body.by_key[0].used[0].used]).toEqual([46, 46]);
  });
});
