import { describe, expect, it } from "vitest";
import { createSetupLink, deleteOldInvitations } from "../../../src/identity/invitations.ts";
import { dayMs } from "../../../src/lib/time/clock.ts";
import { deleteOldAudit } from "../../../src/outbox/audit.ts";
import { browse } from "../support/browse.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { newPath, receiver } from "../support/receiver.ts";
import { countRows } from "../support/storage-rows.ts";

interface AuditEntry {
  action: string;
  actor: { type: string; id: string | null; name: string | null };
  target: { type: string; id: string; name: string | null };
  changes: string[];
}

const readAudit = async (key: string, query = "") => (await call("GET", `/api/v1/audit${query}`, { key })).body.data as AuditEntry[];

describe("The audit log", () => {
  it("shows each change of a key with its actor, newest first, and never a secret", async () => {
    const { accountId, key, keyId } = await makeTenant();
    const { body: created } = await call("POST", "/api/v1/keys", { key, body: { name: "Made" }, "CF-Connecting-IP": "203.0.113.9" });
    const path = `/api/v1/keys/${created.id}`;
    await call("PATCH", path, { key, body: { name: "Changed", hourly_limit: 7 } });
    await call("PATCH", path, { key, body: { status: "disabled" } });
    await call("PATCH", path, { key, body: { status: "active" } });
    const { body: rotated } = await call("POST", `${path}/rotate`, { key, body: {} });
    await browse(accountId).post(`/keys/${created.id}/revoke`);
    const entries = await readAudit(key, `?target=${created.id}`);
    expect(entries.map(({ action, actor, changes }) => [action, actor.type, changes])).toEqual([
      ["key.revoked", "operator", ["status", "overlap_ends_at"]],
      ["key.rotated", "key", ["secret", "overlap_ends_at"]],
      ["key.enabled", "key", ["status"]],
      ["key.disabled", "key", ["status"]],
      ["key.updated", "key", ["name", "hourly_limit"]],
      ["key.created", "key", []],
    ]);
    expect(entries.at(-1)).toMatchObject({
      actor: { type: "key", id: keyId, name: "Test key" },
      target: { type: "key", id: created.id, name: "Made" },
      ip: "203.0.113.9",
    });
    const text = JSON.stringify(entries);
    for (const secret of [created.secret_key, rotated.secret_key]) expect(text).not.toContain(secret.slice(21));
  });

  it("shows each change of a webhook", async () => {
    const { key } = await makeTenant();
    const { body: created } = await call("POST", "/api/v1/webhooks", {
      key,
      body: { url: receiver + newPath(), event_types: ["task.created"] },
    });
    const path = `/api/v1/webhooks/${created.id}`;
    await call("PATCH", path, { key, body: { description: "x" } });
    await call("PATCH", path, { key, body: { status: "disabled" } });
    await call("PATCH", path, { key, body: { status: "active" } });
    // A change that does more than disable the webhook is named as a change, so that the removal of a member lists the webhook.
    await call("PATCH", path, { key, body: { url: receiver + newPath(), status: "disabled" } });
    await call("POST", `${path}/rotate-secret`, { key, body: {} });
    await call("DELETE", path, { key });
    const actions = (await readAudit(key, `?target=${created.id}`)).map(({ action }) => action);
    expect(actions).toEqual([
      "webhook.deleted",
      "webhook.secret_rotated",
      "webhook.updated",
      "webhook.enabled",
      "webhook.disabled",
      "webhook.updated",
      "webhook.created",
    ]);
  });

  it("shows no rejected change, and shows a change once if its request was repeated", async () => {
    const { key, accountId } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { hourly_limit: 0 } });
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { name: "x" }, "If-Match": '"another"' });
    expect((await readAudit(key, `?target=${keyId}`)).map(({ action }) => action)).toEqual(["key.created"]);
    const responses = await Promise.all(
      [1, 2, 3].map(() => call("POST", "/api/v1/keys", { key, body: { name: "Once" }, "Idempotency-Key": "once" })),
    );
    expect(new Set(responses.map(({ body }) => body.id)).size).toBe(1);
    expect(await readAudit(key, `?target=${responses[0]?.body.id}`)).toHaveLength(1);
  });

  it("can be filtered by action, actor and time, and shows only entries of the own account", async () => {
    const [tenant, stranger] = [await makeTenant(), await makeTenant()];
    const { body: created } = await call("POST", "/api/v1/keys", { key: tenant.key, body: { name: "x" } });
    expect(await readAudit(stranger.key, `?target=${created.id}`)).toEqual([]);
    expect((await readAudit(tenant.key, "?action=key.created&actor=key")).map(({ target }) => target.id)).toEqual([created.id]);
    expect((await readAudit(tenant.key, `?actor=${tenant.keyId}`)).map(({ target }) => target.id)).toEqual([created.id]);
    expect(await readAudit(tenant.key, `?to=${new Date(Date.now() - dayMs).toISOString()}`)).toEqual([]);
    const page = await call("GET", "/api/v1/audit?limit=1", { key: tenant.key });
    expect([page.body.data.length, page.body.has_more]).toEqual([1, true]);
  });

  it("keeps its entries for 400 days", async () => {
    const { accountId, key } = await makeTenant();
    expect(await readAudit(key)).toHaveLength(1);
    await deleteOldAudit(db, [accountId], Date.now() + 399 * dayMs, 1000);
    expect(await readAudit(key)).toHaveLength(1);
    await deleteOldAudit(db, [accountId], Date.now() + 401 * dayMs, 1000);
    expect(await readAudit(key)).toHaveLength(0);
  });
});

it("An expired invitation is deleted 400 days after its expiry", async () => {
  const { accountId } = await makeTenant();
  await createSetupLink({ db, now: Date.now() }, accountId);
  await deleteOldInvitations(db, [accountId], Date.now() + 399 * dayMs, 1000);
  expect(await countRows("invitations", accountId)).toBe(1);
  await deleteOldInvitations(db, [accountId], Date.now() + 408 * dayMs, 1000);
  expect(await countRows("invitations", accountId)).toBe(0);
});

it("The overlap of a rotated API key can be shortened or ended, but not extended", async () => {
  const { key, accountId } = await makeTenant();
  const other = await makeKey(accountId);
  const path = `/api/v1/keys/${other.keyId}`;
  const { body: rotated } = await call("POST", `${path}/rotate`, { key, body: { overlap_seconds: 600 } });
  const statusOf = async (secret: string) => (await call("GET", "/api/v1/me", { key: secret })).status;
  const setOverlapEnd = (overlap_ends_at: string | null) => call("PATCH", path, { key, body: { overlap_ends_at } });
  const extended = await setOverlapEnd(new Date(Date.now() + 900_000).toISOString());
  expect([extended.status, extended.body.errors[0].pointer]).toEqual([422, "/overlap_ends_at"]);
  const earlierEnd = new Date(Date.now() + 300_000).toISOString();
  expect((await setOverlapEnd(earlierEnd)).body.overlap_ends_at).toBe(earlierEnd);
  expect(await statusOf(other.key)).toBe(200);
  expect((await setOverlapEnd(null)).body.overlap_ends_at).toBeNull();
  expect([await statusOf(other.key), await statusOf(rotated.secret_key)]).toEqual([401, 200]);
});
