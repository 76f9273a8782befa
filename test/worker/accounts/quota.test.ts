import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { defaultQuotaBytes, reserveBytes } from "../../../src/accounts/storage.ts";
import { manifest as webhooks } from "../../../src/db/areas/webhooks/manifest.ts";
import { replaceRecoveryCodes } from "../../../src/identity/recovery-codes.ts";
import { openSession } from "../../../src/identity/sessions.ts";
import { commitTo } from "../../../src/outbox/outbox.ts";
import { call, db, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { countAuditRows } from "../support/log-rows.ts";
import { operate } from "../support/operate.ts";
import { makePerson, noOrigin } from "../support/people.ts";
import { attemptDelivery, makeDueDelivery, newPath, readDelivery, receiver } from "../support/receiver.ts";
import { readStoredBytes, setStorageQuota } from "../support/storage-rows.ts";
import { countEvents, failAllDeliveries } from "../support/webhook-rows.ts";

const { deliveryBytes } = webhooks.limits;

/**
 * Sets the quota of an account. After this change, the account has `bytes` bytes left. If `bytes` is negative, the account exceeds its
 * quota.
 */
const leaveBytes = async (accountId: string, bytes: number) => setStorageQuota(accountId, (await readStoredBytes(accountId)) + bytes);

/** Sets the quota of an account so low that the account has used up its quota and its reserve. */
const useUpReserve = (accountId: string) => leaveBytes(accountId, -(reserveBytes + 100_000));

/** Creates an account with a webhook, a delivery, a user, a task and two further keys. */
async function makeTenantWithData() {
  const tenant = await makeTenant();
  const { key } = tenant;
  const create = async (path: string, body: object) => (await call("POST", `/api/v1${path}`, { key, body })).body.id as string;
  const webhook = await create("/webhooks", { url: receiver + newPath("fail"), event_types: ["webhook.test"] });
  const { body } = await call("POST", `/api/v1/webhooks/${webhook}/test`, { key, body: {} });
  return {
    ...tenant,
    webhook,
    delivery: body.delivery_id as string,
    user: await create("/users", { name: "Ada", email: "ada@example.com" }),
    task: await create("/tasks", { title: "x" }),
    other: (await makeKey(tenant.accountId)).keyId,
    third: (await makeKey(tenant.accountId)).keyId,
  };
}

describe("An account at its quota", () => {
  it("gets 409 for each request that adds data, until the operator raises the quota", async () => {
    const tenant = await makeTenantWithData();
    const { key, accountId, webhook, user, task, other, delivery } = tenant;
    await leaveBytes(accountId, 0);
    const bytesBefore = await readStoredBytes(accountId);
    const additions = [
      ["POST", "/users", { name: "Bea", email: "bea@example.com" }],
      ["PATCH", `/users/${user}`, { name: "Bea" }],
      ["POST", "/tasks", { title: "y" }],
      ["PATCH", `/tasks/${task}`, { title: "y" }],
      ["POST", "/keys", { name: "More" }],
      ["PATCH", `/keys/${other}`, { name: "Another" }],
      ["PATCH", `/keys/${other}`, { name: "Another", status: "disabled" }],
      ["POST", `/keys/${other}/rotate`, { overlap_seconds: 60 }],
      ["POST", "/webhooks", { url: receiver + newPath(), event_types: ["*"] }],
      ["PATCH", `/webhooks/${webhook}`, { description: "y" }],
      ["PATCH", `/webhooks/${webhook}`, { description: "y", status: "disabled" }],
      ["POST", `/webhooks/${webhook}/rotate-secret`, {}],
      ["POST", `/webhooks/${webhook}/test`, {}],
      ["POST", `/webhooks/${webhook}/redeliver`, { from: new Date(0).toISOString() }],
      ["POST", `/deliveries/${delivery}/redeliver`, {}],
    ] as const;
    for (const [method, path, body] of additions) {
      const denied = await call(method, `/api/v1${path}`, { key, body, ...(method === "POST" && { "Idempotency-Key": "again" }) });
      expect([denied.status, denied.body.code], `${method} ${path}`).toEqual([409, "limit_reached"]);
      expect(denied.body.detail).toContain("used up its storage");
    }
    expect(await readStoredBytes(accountId)).toBe(bytesBefore);
    for (const path of ["/me", "/tasks", "/webhooks", `/deliveries/${delivery}`])
      expect((await call("GET", `/api/v1${path}`, { key })).status).toBe(200);
    await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: null });
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "y" } })).status).toBe(201);
  });

  it("can still delete, revoke, disable and restrict, and the events of these changes are stored", async () => {
    const tenant = await makeTenantWithData();
    const { key, accountId, webhook, user, task, other, third } = tenant;
    await leaveBytes(accountId, 0);
    const eventsBefore = await countEvents(accountId);
    for (const [method, path, body, status] of [
      ["PATCH", `/keys/${other}`, { hourly_limit: 5, scopes: ["tasks:read"] }, 200],
      ["PATCH", `/keys/${other}`, { status: "disabled" }, 200],
      ["DELETE", `/keys/${other}`, undefined, 204],
      ["POST", `/keys/${third}/rotate`, {}, 200],
      ["PATCH", `/webhooks/${webhook}`, { status: "disabled" }, 200],
      ["DELETE", `/webhooks/${webhook}`, undefined, 204],
      ["DELETE", `/tasks/${task}`, undefined, 204],
      ["DELETE", `/users/${user}`, undefined, 204],
    ] as const)
      expect((await call(method, `/api/v1${path}`, { key, body })).status, `${method} ${path}`).toBe(status);
    expect((await countEvents(accountId)) - eventsBefore).toBe(7);
    // While the quota is used up, a disabled key cannot be enabled again. Otherwise, a client could disable and enable a key any number of
    // times, and each change would store an event.
    expect((await call("PATCH", `/api/v1/keys/${third}`, { key, body: { status: "disabled" } })).status).toBe(200);
    expect((await call("PATCH", `/api/v1/keys/${third}`, { key, body: { status: "active" } })).status).toBe(409);
  });

  it("does not exceed its quota through concurrent requests", async () => {
    const { accountId, key } = await makeTenant();
    await leaveBytes(accountId, 1);
    const body = { title: "x", description: "😀".repeat(10_000) };
    const responses = await Promise.all(Array.from({ length: 20 }, () => call("POST", "/api/v1/tasks", { key, body })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([201, ...Array(19).fill(409)]);
  });

  it("can redeliver only if its quota has room for all new deliveries", async () => {
    const { accountId, key } = await makeTenant();
    const { body: webhook } = await call("POST", "/api/v1/webhooks", { key, body: { url: receiver + newPath(), event_types: ["*"] } });
    for (let n = 0; n < 5; n++) await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    await failAllDeliveries(accountId);
    const redeliver = async () =>
      (await call("POST", `/api/v1/webhooks/${webhook.id}/redeliver`, { key, body: { from: new Date(0).toISOString() } })).body;
    await leaveBytes(accountId, 4 * deliveryBytes);
    expect((await redeliver()).code).toBe("limit_reached");
    await leaveBytes(accountId, 5 * deliveryBytes);
    expect((await redeliver()).count).toBe(5);
  });
});

describe("An account that has used up its quota and its reserve", () => {
  it("can still end and delete data, but drops the events, and the operator sees their number", async () => {
    const tenant = await makeTenantWithData();
    const { key, accountId, webhook, task, other, third } = tenant;
    await useUpReserve(accountId);
    const [eventsBefore, auditBefore] = [await countEvents(accountId), await countAuditRows(accountId)];
    for (const [method, path, body, status] of [
      // These changes are denied. Otherwise, a client could repeat the changes any number of times.
      ["PATCH", `/keys/${other}`, { hourly_limit: 5 }, 409],
      ["POST", `/keys/${third}/rotate`, {}, 409],
      ["PATCH", `/keys/${third}`, { name: "Another" }, 409],
      ["PATCH", `/keys/${third}`, { status: "disabled", hourly_limit: 5 }, 200],
      ["DELETE", `/keys/${other}`, undefined, 204],
      ["PATCH", `/webhooks/${webhook}`, { status: "disabled" }, 200],
      ["DELETE", `/tasks/${task}`, undefined, 204],
    ] as const)
      expect((await call(method, `/api/v1${path}`, { key, body })).status, `${method} ${path}`).toBe(status);
    expect(await countEvents(accountId)).toBe(eventsBefore);
    expect((await operate("GET", `/accounts/${accountId}/storage`)).body.dropped_events).toBe(4);
    // The audit log still records each change that ends a key or a webhook.
    expect((await countAuditRows(accountId)) - auditBefore).toBe(3);
    // The operator can still lower the limits of the account.
    expect((await operate("PATCH", `/accounts/${accountId}`, { limit_ceiling: 100 })).body.lowered.length).toBeGreaterThan(0);
  });

  it("lets members sign in without audit entries, and denies new recovery codes", async () => {
    const { accountId } = await makeTenant();
    const { member, proof } = await makePerson(accountId);
    await useUpReserve(accountId);
    const auditBefore = await countAuditRows(accountId);
    for (let n = 0; n < 3; n++) expect(await openSession({ db }, proof, Date.now(), noOrigin)).toMatch(/./);
    const context = { db, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }) };
    await expect(replaceRecoveryCodes(context, { member, session: null })).rejects.toMatchObject({ code: "limit_reached" });
    expect(await countAuditRows(accountId)).toBe(auditBefore);
  });

  it("counts a failed attempt without a record of it, and records a successful attempt", async () => {
    const tenant = await makeTenant();
    const { accountId } = tenant;
    const { deliveryId } = await makeDueDelivery(tenant, newPath("fail"));
    await useUpReserve(accountId);
    expect(await readStoredBytes(accountId)).toBeGreaterThan(0);
    const attempt = (status: number) =>
      attemptDelivery(deliveryId, {
        fetch: async () => new Response("x".repeat(16 * 1024), { status }),
        now: () => Date.now() + (status === 200 ? 60_000 : 0),
      });
    await attempt(500);
    const failed = await readDelivery(tenant, deliveryId);
    expect([failed.status, failed.attempts_made, failed.attempts.length]).toEqual(["pending", 1, 0]);
    const owner = await makePersonWithinQuota(tenant);
    expect((await owner.get(`/deliveries/${deliveryId}`)).text).toContain("1 attempt not recorded");
    await useUpReserve(accountId);
    const bytesBefore = await readStoredBytes(accountId);
    await attempt(200);
    const delivered = await readDelivery(tenant, deliveryId);
    expect([delivered.status, delivered.attempts_made, delivered.attempts.length]).toEqual(["delivered", 2, 1]);
    expect((await readStoredBytes(accountId)) - bytesBefore).toBe(0);
  });
});

/** Sets the quota of an account to the default quota, and creates a member of the account. */
async function makePersonWithinQuota({ accountId }: Tenant) {
  await setStorageQuota(accountId, defaultQuotaBytes);
  return makePerson(accountId);
}
