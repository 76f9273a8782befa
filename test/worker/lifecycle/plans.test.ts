import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { Plan } from "../../../src/budget/plan.ts";
import { termsOf } from "../../../src/budget/plan.ts";
import { admit } from "../support/admissions.ts";
import { call, cron, makeKey, makeTenant } from "../support/client.ts";
import { operate, operatorActionsOn } from "../support/operate.ts";

let made = 0;
const team = {
  account_limits: [{ per: "hour", limit: 30 }],
  key_limits: [
    { per: "second", limit: 50 },
    { per: "hour", limit: 2000 },
  ],
  default_scopes: ["tasks:read"],
  retention_days: 7,
};
const makePlan = async (content: object = team) => {
  const { status, body } = await operate("POST", "/plans", { name: `Team ${Date.now()} ${++made}`, ...content });
  expect(status).toBe(201);
  return body as { id: string; name: string };
};

describe("A plan", () => {
  it.each<[string, object]>([
    ["/account_limits/0/per", { name: "x", account_limits: [{ per: "second", limit: 5 }] }],
    [
      "/account_limits",
      {
        name: "x",
        account_limits: [
          { per: "hour", limit: 5 },
          { per: "hour", limit: 6 },
        ],
      },
    ],
    ["/key_limits/0/limit", { name: "x", key_limits: [{ per: "day", limit: 0 }] }],
    ["/default_scopes/0", { name: "x", default_scopes: ["all"] }],
    ["/retention_days", { name: "x", retention_days: 1 }],
    ["/name", { name: "" }],
  ])("with a wrong %s is refused", async (pointer, body) => {
    const { status, body: problem } = await operate("POST", "/plans", body);
    expect([status, problem.errors[0].pointer]).toEqual([422, pointer]);
  });

  it("has a name of its own", async () => {
    const [one, other] = [await makePlan(), await makePlan()];
    expect((await operate("POST", "/plans", { name: one.name })).status).toBe(409);
    expect((await operate("PATCH", `/plans/${other.id}`, { name: one.name })).status).toBe(409);
  });

  it("reaches the keys with its limits before a change returns, up and down, and leaves keys with their own limits", async () => {
    const plan = await makePlan({ ...team, account_limits: [], default_scopes: null });
    const { accountId, keyId } = await makeTenant();
    await operate("PATCH", `/accounts/${accountId}`, { plan_id: plan.id });
    const made = async (body: object) => (await operate("POST", `/accounts/${accountId}/keys`, { name: "K", ...body })).body;
    const [ofPlan, own] = [await made({}), await made({ hourly_limit: 500 })];
    const limitsOf = async ({ id }: { id: string }) => {
      const { limits, limits_from: from } = (await operate("GET", `/keys/${id}`)).body;
      return [from, ...limits.map(({ per, limit }: { per: string; limit: number }) => `${per} ${limit}`)];
    };
    expect([await limitsOf(ofPlan), await limitsOf(own)]).toEqual([
      ["plan", "second 50", "hour 2000"],
      ["key", "second 50", "hour 500"],
    ]);
    await operate("PATCH", `/plans/${plan.id}`, {
      key_limits: [
        { per: "second", limit: 90 },
        { per: "hour", limit: 4000 },
      ],
    });
    expect([await limitsOf(ofPlan), await limitsOf(own)]).toEqual([
      ["plan", "second 90", "hour 4000"],
      ["key", "second 50", "hour 500"],
    ]);
    expect((await call("GET", "/api/v1/me", { key: ofPlan.secret_key })).headers.get("X-RateLimit-Limit")).toBe("4000");
    const lowered = await operate("PATCH", `/accounts/${accountId}`, {
      plan_id: (await makePlan({ key_limits: [{ per: "hour", limit: 300 }] })).id,
    });
    expect(lowered.body.lowered.toSorted()).toEqual([keyId, ofPlan.id, own.id].toSorted());
    expect([await limitsOf(ofPlan), await limitsOf(own)]).toEqual([
      ["plan", "hour 300"],
      ["key", "second 50", "hour 300"],
    ]);
    // The limits that a request names become the key's own, and a key can go back to those of its plan.
    await operate("PUT", `/keys/${ofPlan.id}/limits`, { limits: [{ per: "hour", limit: 300 }] });
    expect(await limitsOf(ofPlan)).toEqual(["key", "hour 300"]);
    expect((await operate("PATCH", `/keys/${own.id}`, { limits_from: "plan" })).status).toBe(200);
    await operate("PATCH", `/accounts/${accountId}`, { plan_id: plan.id });
    expect([await limitsOf(ofPlan), await limitsOf(own)]).toEqual([
      ["key", "second 90", "hour 300"],
      ["plan", "second 90", "hour 4000"],
    ]);
  });

  it("is not widened by a key that may not grant as much", async () => {
    const { accountId, keyId } = await makeTenant({ hourlyLimit: 2000 });
    const acting = await makeKey(accountId, { hourlyLimit: 1000, scopes: ["keys:write", "keys:read", "tasks:read"] });
    await operate("PUT", `/keys/${keyId}/limit`, { limit: 500 });
    expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key: acting.key, body: { limits_from: "plan" } })).status).toBe(403);
    // Its limits are those of the plan today, but they are its own, and the plan may be raised tomorrow.
    const own = await makeKey(accountId, { hourlyLimit: 5000, scopes: ["keys:write", "keys:read"] });
    for (const id of [own.keyId, keyId])
      expect((await call("PATCH", `/api/v1/keys/${id}`, { key: own.key, body: { limits_from: "plan" } })).status).toBe(403);
    const copied = await call("POST", "/api/v1/keys", { key: acting.key, body: { name: "Copy", scopes: ["tasks:read"] } });
    expect(copied.body).toMatchObject({ hourly_limit: 1000, limits_from: "key" });
  });

  it("gives its accounts their limits, their keys, their scopes and their retention", async () => {
    const plan = await makePlan();
    const { accountId, keyId } = await makeTenant();
    const { status, body } = await operate("PATCH", `/accounts/${accountId}`, { plan_id: plan.id });
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({
        plan_id: plan.id,
        limits: team.account_limits,
        pending_limits: null,
        limit_ceiling: 2000,
        retention_days: 7,
        lowered: [keyId],
      }),
    ]);
    expect((await operate("GET", `/plans/${plan.id}`)).body).toMatchObject({ accounts: 1, waiting: 0 });
    const keys = (await operate("GET", `/accounts/${accountId}/keys`)).body.data;
    expect(keys[0].limits).toEqual([
      { per: "second", limit: 50 },
      { per: "hour", limit: 2000 },
    ]);
    const later = await operate("POST", `/accounts/${accountId}/keys`, { name: "Later" });
    expect(later.body).toMatchObject({ scopes: ["tasks:read"], hourly_limit: 2000, limits: keys[0].limits });
    const tooWide = await operate("POST", `/accounts/${accountId}/keys`, { name: "Wide", limits: [{ per: "second", limit: 51 }] });
    expect([tooWide.status, tooWide.body.errors[0].pointer]).toEqual([422, "/limits"]);
    expect((await operate("DELETE", `/plans/${plan.id}`)).status).toBe(409);
    expect(await operatorActionsOn(accountId)).toEqual(["key.made", "key.limited", "account.changed"]);
  });

  it("changes all its accounts in pieces, and each account has the new limit as soon as its row says so", async () => {
    const plan = await makePlan({ account_limits: [{ per: "hour", limit: 100 }] });
    const tenants = await Promise.all(Array.from({ length: 12 }, () => makeTenant()));
    for (const { accountId } of tenants) await operate("PATCH", `/accounts/${accountId}`, { plan_id: plan.id });
    const waiting: number[] = [];
    for (let after: string | null = ""; after !== null; ) {
      const query: string = after === "" ? "" : `?after=${after}`;
      const { body } = await operate(
        "PATCH",
        `/plans/${plan.id}${query}`,
        after === "" ? { account_limits: [{ per: "hour", limit: 5 }] } : {},
      );
      waiting.push(body.waiting);
      after = body.next;
    }
    expect(waiting).toEqual([7, 2, 0]);
    for (const tenant of tenants) {
      expect((await operate("GET", `/accounts/${tenant.accountId}`)).body.limits).toEqual([{ per: "hour", limit: 5 }]);
      const admissions = await Promise.all(Array.from({ length: 8 }, () => admit(tenant)));
      expect(admissions.filter((admission) => admission?.refusal === null).length).toBe(5);
    }
  });

  it("reaches an account whose guard was away, from the scheduled job", async () => {
    const plan = await makePlan({ account_limits: [{ per: "hour", limit: 100 }] });
    const tenant = await makeTenant();
    await operate("PATCH", `/accounts/${tenant.accountId}`, { plan_id: plan.id });
    await admit(tenant);
    const away = vi.spyOn(Object.getPrototypeOf(env.ACCOUNT_BUDGET), "getByName").mockImplementation(() => {
      throw new Error("no route to the objects");
    });
    const changed = await operate("PATCH", `/plans/${plan.id}`, { account_limits: [{ per: "hour", limit: 3 }] });
    away.mockRestore();
    expect(changed.body).toMatchObject({ accounts: 1, waiting: 1, next: null });
    const before = (await operate("GET", `/accounts/${tenant.accountId}`)).body;
    expect([before.limits, before.pending_limits]).toEqual([[{ per: "hour", limit: 100 }], [{ per: "hour", limit: 3 }]]);
    const now = Date.now();
    for (let minute = 1; minute < 40; minute++) {
      await cron(now + minute * 60_000);
      if ((await operate("GET", `/plans/${plan.id}`)).body.waiting === 0) break;
    }
    const after = (await operate("GET", `/accounts/${tenant.accountId}`)).body;
    expect([after.limits, after.pending_limits]).toEqual([[{ per: "hour", limit: 3 }], null]);
  });
});

it("The terms of an account are its own, then those of its plan, then those of the service", () => {
  const plan = {
    accountLimits: [
      { per: "hour", limit: 10 },
      { per: "day", limit: 100 },
    ],
    keyLimits: [
      { per: "minute", limit: 7 },
      { per: "hour", limit: 9 },
    ],
    defaultScopes: ["users:read"],
    retentionDays: 3,
  } as unknown as Plan;
  expect(termsOf(null, {})).toEqual({ sharedLimits: [], limitCeiling: 5000, keyLimits: [], defaultScopes: null, retentionDays: null });
  expect(termsOf(plan, {})).toEqual({
    sharedLimits: plan.accountLimits,
    limitCeiling: 9,
    keyLimits: [{ per: "minute", limit: 7 }],
    defaultScopes: ["users:read"],
    retentionDays: 3,
  });
  expect(termsOf(plan, { limits: [{ per: "day", limit: 5 }], limitCeiling: 4, retentionDays: 60 })).toMatchObject({
    sharedLimits: [
      { per: "hour", limit: 10 },
      { per: "day", limit: 5 },
    ],
    limitCeiling: 4,
    retentionDays: 60,
  });
});

describe("GET /account/limits", () => {
  it("says what the plan is, what is used, and by which key", async () => {
    const plan = await makePlan({
      account_limits: [
        { per: "hour", limit: 40 },
        { per: "day", limit: 100 },
      ],
    });
    const { accountId, keyId, key } = await makeTenant();
    const other = await makeKey(accountId, { name: "Nightly" });
    await operate("PATCH", `/accounts/${accountId}`, { plan_id: plan.id });
    await Promise.all(Array.from({ length: 9 }, () => admit(other)));
    const { status, body } = await call("GET", "/api/v1/account/limits", { key });
    expect(status).toBe(200);
    expect(body.plan).toEqual({ id: plan.id, name: plan.name });
    expect(body.policies).toEqual([
      { name: "account-hour", limit: 40, used: 10, remaining: 30, percent: 25, resets_at: expect.any(String) },
      { name: "account-day", limit: 100, used: 10, remaining: 90, percent: 10, resets_at: expect.any(String) },
    ]);
    const usedOf = (used: number) => [
      { name: "account-hour", used },
      { name: "account-day", used },
    ];
    expect(body.by_key).toEqual([
      { key_id: other.keyId, key_name: "Nightly", used: usedOf(9) },
      { key_id: keyId, key_name: "Test key", used: usedOf(1) },
    ]);
  });
});
