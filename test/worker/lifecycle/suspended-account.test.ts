import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { call, cron, makeKey, makeTenant } from "../support/client.ts";
import { readKeyRow, updateKeyRow } from "../support/key-rows.ts";
import { readMemberIds } from "../support/member-rows.ts";
import { operate, operatorActionsOn, reconcileGuards } from "../support/operate.ts";
import { setSuspendedAt } from "../support/operations-rows.ts";
import { makePerson } from "../support/people.ts";
import { attemptDelivery, deliveriesOf, deliveryWait, receivedAt, register, waitForRequest } from "../support/receiver.ts";
import { tryKey } from "../support/try-key.ts";
import { readDeliveryRows } from "../support/webhook-rows.ts";

/** Subscribes a webhook to all event types, directly in the database. */
const subscribeToAllEvents = (webhookId: string) =>
  env.DB.prepare("UPDATE webhooks SET event_types = '[\"*\"]' WHERE id = ?").bind(webhookId).run();

describe("A suspended account", () => {
  it("has all its keys denied from the moment that the call returns until it is resumed, and no denied request counts", async () => {
    const { accountId, key } = await makeTenant();
    const { key: otherKey } = await makeKey(accountId);
    expect([await tryKey(key), await tryKey(otherKey)]).toEqual([200, 200]);
    expect((await operate("POST", `/accounts/${accountId}/suspend`)).body.keys).toBe(2);
    for (const each of [key, otherKey]) {
      const { status, body, headers } = await call("GET", "/api/v1/me", { key: each });
      expect([status, body.code, headers.get("X-RateLimit-Used")]).toEqual([403, "account_suspended", "1"]);
    }
    expect((await operate("POST", `/accounts/${accountId}/suspend`)).status).toBe(200);
    await operate("POST", `/accounts/${accountId}/resume`);
    expect([await tryKey(key), await tryKey(otherKey)]).toEqual([200, 200]);
    expect(await operatorActionsOn(accountId)).toEqual(["account.resumed", "account.suspended"]);
  });

  it("rejects a change by a request that its key's guard admitted before the suspension", async () => {
    const { accountId, key } = await makeTenant();
    expect(await tryKey(key)).toBe(200);
    await setSuspendedAt(accountId, 1);
    const { status, body } = await call("POST", "/api/v1/tasks", { key, body: { title: "late" } });
    expect([status, body.code]).toEqual([403, "account_suspended"]);
  });

  it("holds its deliveries, and sends them after it is resumed", async () => {
    const tenant = await makeTenant();
    const webhook = await register(tenant.key, { event_types: ["task.created"] });
    await operate("POST", `/accounts/${tenant.accountId}/suspend`);
    // In a suspended account, only the operator can cause events, for example by creating a key.
    await subscribeToAllEvents(webhook.id);
    await operate("POST", `/accounts/${tenant.accountId}/keys`, { name: "New key" });
    const deliveries = await readDeliveryRows(webhook.id);
    expect(deliveries).toHaveLength(1);
    await cron(Date.now() + 10_000);
    // A direct attempt returns only after its request to the receiver has ended. If the receiver has no request by then, the attempt has
    // sent none.
    for (const { id } of deliveries) await attemptDelivery(String(id));
    expect(await readDeliveryRows(webhook.id)).toMatchObject([{ status: "pending", attempts_made: 0 }]);
    expect(await receivedAt(webhook.path)).toEqual([]);
    await operate("POST", `/accounts/${tenant.accountId}/resume`);
    await cron(Date.now() + 10_000);
    const { body } = await waitForRequest(webhook.path);
    expect(JSON.parse(body).type).toBe("key.created");
    await vi.waitFor(async () => expect((await deliveriesOf(tenant, webhook.id))[0].status).toBe("delivered"), deliveryWait);
  });

  it("lets its members view pages and sign out, but change nothing", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    await operate("POST", `/accounts/${accountId}/suspend`);
    const page = await owner.get("/keys");
    expect([page.status, page.text.includes("This account has been suspended")]).toEqual([200, true]);
    const denied = await owner.post("/keys", { name: "No" });
    expect([denied.status, denied.text.includes("suspended")]).toEqual([403, true]);
    expect((await owner.post("/settings/recovery-codes")).status).toBe(403);
    expect((await owner.post("/preferences", { theme: "dark", return_to: "/" })).status).toBe(303);
    expect((await owner.post("/logout")).status).toBe(303);
    expect((await owner.get("/")).status).toBe(303);
  });

  it("lets nobody join by a setup link", async () => {
    const { accountId } = await makeTenant();
    await operate("POST", `/accounts/${accountId}/suspend`);
    await expect(makePerson(accountId)).rejects.toMatchObject({ code: "account_suspended" });
    expect(await readMemberIds(accountId)).toEqual([]);
  });

  it("stays suspended after D1 is restored to an earlier time and the guards are reconciled", async () => {
    const { accountId, key, keyId } = await makeTenant();
    expect(await tryKey(key)).toBe(200);
    const { version = 0, pushed_version = 0, revision = "" } = await readKeyRow(keyId);
    await operate("POST", `/accounts/${accountId}/suspend`);
    await setSuspendedAt(accountId, null);
    await updateKeyRow(keyId, { version, pushed_version, revision });
    await reconcileGuards(accountId, keyId);
    expect((await operate("GET", `/accounts/${accountId}`)).body.status).toBe("suspended");
    expect(await tryKey(key)).toBe("account_suspended");
  });
});

it("A suspended account shows its members since when and why, and the reason ends with the suspension", async () => {
  const { accountId } = await makeTenant();
  const owner = await makePerson(accountId);
  const reason = "The invoice of October is <b>open</b>.";
  expect((await operate("POST", `/accounts/${accountId}/suspend`, { reason })).status).toBe(200);
  const { text } = await owner.get("/");
  expect(text).toContain("Reason: <bdi>The invoice of October is &lt;b&gt;open&lt;/b&gt;.</bdi>");
  expect((await operate("GET", `/accounts/${accountId}`)).body.suspension_reason).toBe(reason);
  await operate("POST", `/accounts/${accountId}/resume`);
  expect((await operate("GET", `/accounts/${accountId}`)).body.suspension_reason).toBeNull();
});
