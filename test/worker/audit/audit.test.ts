import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { deleteOldAudit } from "../../../src/audit/audit.ts";
import { deleteOldInvitations, makeSetup } from "../../../src/identity/invitations.ts";
import { dayMs } from "../../../src/time/clock.ts";
import { browse, labelled } from "../support/browse.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { newPath, receiver } from "../support/receiver.ts";

interface Entry {
  action: string;
  actor: { type: string; id: string | null; name: string | null };
  target: { type: string; id: string; name: string | null };
  changes: string[];
}

const auditOf = async (key: string, query = "") => (await call("GET", `/api/v1/audit${query}`, { key })).body.data as Entry[];

describe("The audit log", () => {
  it("says who did what to keys, newest first, and never a secret", async () => {
    const { accountId, key, keyId } = await makeTenant();
    const { body: made } = await call("POST", "/api/v1/keys", { key, body: { name: "Made" }, "CF-Connecting-IP": "203.0.113.9" });
    const path = `/api/v1/keys/${made.id}`;
    await call("PATCH", path, { key, body: { name: "Changed", hourly_limit: 7 } });
    await call("PATCH", path, { key, body: { status: "disabled" } });
    await call("PATCH", path, { key, body: { status: "active" } });
    const { body: rotated } = await call("POST", `${path}/rotate`, { key, body: {} });
    await browse(accountId).post(`/keys/${made.id}/revoke`);
    const entries = await auditOf(key, `?target=${made.id}`);
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
      target: { type: "key", id: made.id, name: "Made" },
      ip: "203.0.113.9",
    });
    const text = JSON.stringify(entries);
    for (const secret of [made.secret_key, rotated.secret_key]) expect(text).not.toContain(secret.slice(21));
  });

  it("says who did what to webhooks", async () => {
    const { key } = await makeTenant();
    const { body: made } = await call("POST", "/api/v1/webhooks", {
      key,
      body: { url: receiver + newPath(), event_types: ["task.created"] },
    });
    const path = `/api/v1/webhooks/${made.id}`;
    await call("PATCH", path, { key, body: { description: "x" } });
    await call("PATCH", path, { key, body: { status: "disabled" } });
    await call("POST", `${path}/rotate-secret`, { key, body: {} });
    await call("DELETE", path, { key });
    const actions = (await auditOf(key, `?target=${made.id}`)).map(({ action }) => action);
    expect(actions).toEqual(["webhook.deleted", "webhook.secret_rotated", "webhook.disabled", "webhook.updated", "webhook.created"]);
  });

  it("has nothing of what was refused or lost a race", async () => {
    const { key, accountId } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { hourly_limit: 0 } });
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { name: "x" }, "If-Match": '"another"' });
    expect((await auditOf(key, `?target=${keyId}`)).map(({ action }) => action)).toEqual(["key.created"]);
    const sent = await Promise.all(
      [1, 2, 3].map(() => call("POST", "/api/v1/keys", { key, body: { name: "Once" }, "Idempotency-Key": "once" })),
    );
    expect(new Set(sent.map(({ body }) => body.id)).size).toBe(1);
    expect(await auditOf(key, `?target=${sent[0]?.body.id}`)).toHaveLength(1);
  });

  it("is filtered by action, actor and time, and is of the own account", async () => {
    const [mine, theirs] = [await makeTenant(), await makeTenant()];
    const { body: made } = await call("POST", "/api/v1/keys", { key: mine.key, body: { name: "x" } });
    expect(await auditOf(theirs.key, `?target=${made.id}`)).toEqual([]);
    expect((await auditOf(mine.key, "?action=key.created&actor=key")).map(({ target }) => target.id)).toEqual([made.id]);
    expect((await auditOf(mine.key, `?actor=${mine.keyId}`)).map(({ target }) => target.id)).toEqual([made.id]);
    expect(await auditOf(mine.key, `?to=${new Date(Date.now() - dayMs).toISOString()}`)).toEqual([]);
    const page = await call("GET", "/api/v1/audit?limit=1", { key: mine.key });
    expect([page.body.data.length, page.body.has_more]).toEqual([1, true]);
  });

  it("is kept for 400 days", async () => {
    const { accountId, key } = await makeTenant();
    expect(await auditOf(key)).toHaveLength(1);
    await deleteOldAudit(db, [accountId], Date.now() + 399 * dayMs, 1000);
    expect(await auditOf(key)).toHaveLength(1);
    await deleteOldAudit(db, [accountId], Date.now() + 401 * dayMs, 1000);
    expect(await auditOf(key)).toHaveLength(0);
  });

  it("and invitations that have ended go together, after 400 days", async () => {
    const { accountId } = await makeTenant();
    await makeSetup({ db, now: Date.now() }, accountId);
    const count = () => env.DB.prepare("SELECT count(*) AS count FROM invitations WHERE account_id = ?").bind(accountId).first("count");
    await deleteOldInvitations(db, [accountId], Date.now() + 399 * dayMs, 1000);
    expect(await count()).toBe(1);
    await deleteOldInvitations(db, [accountId], Date.now() + 408 * dayMs, 1000);
    expect(await count()).toBe(0);
  });
});

describe("What the log and the events know more", () => {
  it("is who made a key, which secret a request came with, and which request an event comes from", async () => {
    const { accountId, key, keyId } = await makeTenant();
    const { body: made } = await call("POST", "/api/v1/keys", { key, body: { name: "x" } });
    expect((await call("GET", `/api/v1/keys/${made.id}`, { key })).body.created_by).toEqual({ type: "key", id: keyId, name: "Test key" });
    const fresh = labelled((await browse(accountId).post(`/keys/${made.id}/rotate`, { overlap_seconds: "60" })).text, "Secret key") ?? "";
    const seen: string[] = [];
    for (const secret of [made.secret_key, fresh]) {
      const { headers } = await call("GET", "/api/v1/me", { key: secret });
      await expect
        .poll(async () => (await call("GET", `/api/v1/activity/${headers.get("X-Request-Id")}`, { key })).body.secret, { timeout: 2000 })
        .toMatch(/current|previous/);
      seen.push((await call("GET", `/api/v1/activity/${headers.get("X-Request-Id")}`, { key })).body.secret);
    }
    expect(seen).toEqual(["previous", "current"]);
  });
});

describe("An overlap", () => {
  it("is ended earlier by a change of the key, at once or at a time, and never later", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const path = `/api/v1/keys/${other.keyId}`;
    const { body: rotated } = await call("POST", `${path}/rotate`, { key, body: { overlap_seconds: 600 } });
    const status = async (secret: string) => (await call("GET", "/api/v1/me", { key: secret })).status;
    const later = await call("PATCH", path, { key, body: { overlap_ends_at: new Date(Date.now() + 900_000).toISOString() } });
    expect([later.status, later.body.errors[0].pointer]).toEqual([422, "/overlap_ends_at"]);
    const at = new Date(Date.now() + 300_000).toISOString();
    expect((await call("PATCH", path, { key, body: { overlap_ends_at: at } })).body.overlap_ends_at).toBe(at);
    expect(await status(other.key)).toBe(200);
    expect((await call("PATCH", path, { key, body: { overlap_ends_at: null } })).body.overlap_ends_at).toBeNull();
    expect([await status(other.key), await status(rotated.secret_key)]).toEqual([401, 200]);
  });
});
