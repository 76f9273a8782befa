import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { replaceRecoveryCodes } from "../../../src/identity/recovery-codes.ts";
import { openSession } from "../../../src/identity/sessions.ts";
import { deliveryBytes, reserveBytes, usualQuotaBytes } from "../../../src/storage/storage.ts";
import { deliver } from "../../../src/webhooks/deliver.ts";
import { commitTo } from "../../../src/webhooks/outbox.ts";
import { call, db, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { makePerson } from "../support/people.ts";
import { delivering, newPath, receiver } from "../support/receiver.ts";

const first = <Value>(sql: string, accountId: string, column: string) => env.DB.prepare(sql).bind(accountId).first<Value>(column);
const bytesOf = async (accountId: string) =>
  (await first<number>("SELECT bytes FROM account_storage WHERE account_id = ?", accountId, "bytes")) ?? 0;
const countOf = async (table: string, accountId: string) =>
  (await first<number>(`SELECT count(*) AS count FROM ${table} WHERE account_id = ?`, accountId, "count")) ?? 0;

/** Sets the quota of an account to what it stores, less `beyond` bytes. */
const fill = async ({ accountId }: Pick<Tenant, "accountId">, beyond = 0) => {
  await env.DB.prepare("UPDATE accounts SET storage_quota_bytes = ? WHERE id = ?")
    .bind((await bytesOf(accountId)) - beyond, accountId)
    .run();
};

/** So much beyond its quota that the reserve is used up, too. */
const beyondReserve = reserveBytes + 100_000;

/** An account with some of everything. */
async function furnished() {
  const tenant = await makeTenant();
  const { key } = tenant;
  const made = async (path: string, body: object) => (await call("POST", `/api/v1${path}`, { key, body })).body.id as string;
  const webhook = await made("/webhooks", { url: receiver + newPath("fail"), event_types: ["webhook.test"] });
  const { body } = await call("POST", `/api/v1/webhooks/${webhook}/test`, { key, body: {} });
  return {
    ...tenant,
    webhook,
    delivery: body.delivery_id as string,
    user: await made("/users", { name: "Ada", email: "ada@example.com" }),
    task: await made("/tasks", { title: "x" }),
    other: (await makeKey(tenant.accountId)).keyId,
    third: (await makeKey(tenant.accountId)).keyId,
  };
}

describe("An account at its quota", () => {
  it("adds nothing: 409 limit_reached to every POST and PATCH, until the operator gives it more", async () => {
    const tenant = await furnished();
    const { key, accountId, webhook, user, task, other, delivery } = tenant;
    await fill(tenant);
    const before = await bytesOf(accountId);
    const adding = [
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
    for (const [method, path, body] of adding) {
      const refused = await call(method, `/api/v1${path}`, { key, body, ...(method === "POST" && { "Idempotency-Key": "again" }) });
      expect([refused.status, refused.body.code], `${method} ${path}`).toEqual([409, "limit_reached"]);
      expect(refused.body.detail).toContain("used up its storage");
    }
    expect(await bytesOf(accountId)).toBe(before);
    for (const path of ["/me", "/tasks", "/webhooks", `/deliveries/${delivery}`])
      expect((await call("GET", `/api/v1${path}`, { key })).status).toBe(200);
    await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: null });
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "y" } })).status).toBe(201);
  });

  it("still deletes, revokes, disables and tightens, and what that makes known is stored", async () => {
    const tenant = await furnished();
    const { key, accountId, webhook, user, task, other, third } = tenant;
    await fill(tenant);
    const events = await countOf("events", accountId);
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
    expect((await countOf("events", accountId)) - events).toBe(7);
    // What is disabled is not enabled again: so nothing goes on for ever.
    expect((await call("PATCH", `/api/v1/keys/${third}`, { key, body: { status: "disabled" } })).status).toBe(200);
    expect((await call("PATCH", `/api/v1/keys/${third}`, { key, body: { status: "active" } })).status).toBe(409);
  });

  it("says so on the pages, and still lets members sign in, leave and be removed", async () => {
    const tenant = await makeTenant();
    const owner = await makePerson(tenant.accountId);
    const viewer = await makePerson(tenant.accountId, "viewer");
    await fill(tenant);
    const refused = await owner.post("/keys", { name: "More", scopes: "tasks:read", hourly_limit: "10" });
    expect(refused.text).toContain("used up its storage");
    const from = { ip: null, country: null, userAgent: null };
    expect(await openSession({ db }, viewer.member, Date.now(), from, "a passkey")).toMatch(/./);
    expect((await owner.post(`/settings/people/${viewer.member.id}/remove`)).status).toBe(303);
  });

  it("is not passed by requests that come at once: each looks at what the one before has stored", async () => {
    const tenant = await makeTenant();
    const { accountId, key } = tenant;
    await env.DB.prepare("UPDATE accounts SET storage_quota_bytes = ? WHERE id = ?")
      .bind((await bytesOf(accountId)) + 1, accountId)
      .run();
    const body = { title: "x", description: "😀".repeat(10_000) };
    const made = await Promise.all(Array.from({ length: 20 }, () => call("POST", "/api/v1/tasks", { key, body })));
    expect(made.map(({ status }) => status).toSorted()).toEqual([201, ...Array(19).fill(409)]);
  });

  it("redelivers only as much as it has room for", async () => {
    const tenant = await makeTenant();
    const { accountId, key } = tenant;
    const { body: webhook } = await call("POST", "/api/v1/webhooks", { key, body: { url: receiver + newPath(), event_types: ["*"] } });
    for (let n = 0; n < 5; n++) await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    await env.DB.prepare("UPDATE deliveries SET status = 'failed', next_attempt_at = NULL WHERE account_id = ?").bind(accountId).run();
    await fill(tenant, -4 * deliveryBytes);
    const again = { from: new Date(0).toISOString() };
    expect((await call("POST", `/api/v1/webhooks/${webhook.id}/redeliver`, { key, body: again })).body.code).toBe("limit_reached");
    await fill(tenant, -5 * deliveryBytes);
    expect((await call("POST", `/api/v1/webhooks/${webhook.id}/redeliver`, { key, body: again })).body.count).toBe(5);
  });
});

describe("An account that has used up its reserve, too", () => {
  it("still ends what is there, and drops the events of it, which the operator can see", async () => {
    const tenant = await furnished();
    const { key, accountId, webhook, task, other, third } = tenant;
    await fill(tenant, beyondReserve);
    const [events, audit] = [await countOf("events", accountId), await countOf("audit", accountId)];
    for (const [method, path, body, status] of [
      // These could be repeated without end.
      ["PATCH", `/keys/${other}`, { hourly_limit: 5 }, 409],
      ["POST", `/keys/${third}/rotate`, {}, 409],
      ["PATCH", `/keys/${third}`, { status: "disabled", hourly_limit: 5 }, 200],
      ["DELETE", `/keys/${other}`, undefined, 204],
      ["PATCH", `/webhooks/${webhook}`, { status: "disabled" }, 200],
      ["DELETE", `/tasks/${task}`, undefined, 204],
    ] as const)
      expect((await call(method, `/api/v1${path}`, { key, body })).status, `${method} ${path}`).toBe(status);
    expect(await countOf("events", accountId)).toBe(events);
    expect((await operate("GET", `/accounts/${accountId}/storage`)).body.dropped_events).toBe(4);
    // Who ended what is known always.
    expect((await countOf("audit", accountId)) - audit).toBe(3);
    // The operator may take away what they like.
    expect((await operate("PUT", `/accounts/${accountId}/ceiling`, { limit: 100 })).body.lowered.length).toBeGreaterThan(0);
  });

  it("has members who sign in and out without any record, and who make no recovery codes", async () => {
    const tenant = await makeTenant();
    const { accountId } = tenant;
    const { member } = await makePerson(accountId);
    await fill(tenant, beyondReserve);
    const audit = await countOf("audit", accountId);
    const from = { ip: null, country: null, userAgent: null };
    for (let n = 0; n < 3; n++) expect(await openSession({ db }, member, Date.now(), from, "a passkey")).toMatch(/./);
    const writing = { db, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }) };
    await expect(replaceRecoveryCodes(writing, member)).rejects.toMatchObject({ code: "limit_reached" });
    expect(await countOf("audit", accountId)).toBe(audit);
  });

  it("keeps no record of a failed attempt, which its delivery counts, and one of the attempt that succeeds", async () => {
    const tenant = await furnished();
    const { key, accountId, webhook } = tenant;
    const { body } = await call("POST", `/api/v1/webhooks/${webhook}/test`, { key, body: {} });
    const id = body.delivery_id as string;
    await env.DB.prepare("DELETE FROM attempts WHERE delivery_id = ?").bind(id).run();
    await env.DB.prepare(
      "UPDATE deliveries SET attempts_made = 0, claim = NULL, claimed_until = 0, status = 'pending', next_attempt_at = 0 WHERE id = ?",
    )
      .bind(id)
      .run();
    await fill(tenant, beyondReserve);
    const before = await bytesOf(accountId);
    const attempt = (status: number) =>
      deliver(
        delivering({
          fetch: async () => new Response("x".repeat(16 * 1024), { status }),
          now: () => Date.now() + (status === 200 ? 60_000 : 0),
        }),
        id,
      );
    await attempt(500);
    const { body: failed } = await call("GET", `/api/v1/deliveries/${id}`, { key });
    expect([failed.status, failed.attempts_made, failed.attempts.length]).toEqual(["pending", 1, 0]);
    const owner = await makePersonBefore(tenant);
    expect((await owner.get(`/deliveries/${id}`)).text).toContain("1 attempt without a record");
    await fill(tenant, beyondReserve);
    const after = await bytesOf(accountId);
    await attempt(200);
    const { body: delivered } = await call("GET", `/api/v1/deliveries/${id}`, { key });
    expect([delivered.status, delivered.attempts_made, delivered.attempts.length]).toEqual(["delivered", 2, 1]);
    expect((await bytesOf(accountId)) - after).toBe(0);
    expect(before).toBeGreaterThan(0);
  });
});

/** A member of an account that has room for one again. */
async function makePersonBefore({ accountId }: Tenant) {
  await env.DB.prepare("UPDATE accounts SET storage_quota_bytes = ? WHERE id = ?").bind(usualQuotaBytes, accountId).run();
  return makePerson(accountId);
}
