import { env } from "cloudflare:workers";
import { describe, expect, inject, it, vi } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { manifest as webhooks } from "../../../src/db/areas/webhooks/manifest.ts";
import { maxMembers } from "../../../src/identity/invitations.ts";
import { replaceRecoveryCodes } from "../../../src/identity/recovery-codes.ts";
import { maxSessions, openSession } from "../../../src/identity/sessions.ts";
import { dayMs } from "../../../src/lib/time/clock.ts";
import { commitTo } from "../../../src/outbox/outbox.ts";
import { call, db, makeTenant } from "../support/client.ts";
import { makePerson, noOrigin } from "../support/people.ts";
import { attemptDelivery, deliveriesOf, newPath, register } from "../support/receiver.ts";
import { accountExpression, readCountedTables, readIds, readStoredBytes, readTriggers, sumRowBytes } from "../support/storage-rows.ts";

/** Locally, one queue hands on the messages of all tests in order, and other tests may have left thousands in it. Both times are in milliseconds. */
const queueWait = { timeout: 180_000, interval: 250 };

const { deliveryBytes, includedAttemptBytes } = webhooks.limits;

/** Makes all pending deliveries of an account due, and returns their ids. */
async function makePendingDeliveriesDue(accountId: string): Promise<string[]> {
  const { results } = await env.DB.prepare(
    "UPDATE deliveries SET next_attempt_at = 0 WHERE account_id = ? AND status = 'pending' RETURNING id",
  )
    .bind(accountId)
    .all<{ id: string }>();
  return results.map(({ id }) => id);
}

/** Inserts open invitations to an account. The invited email addresses are `1@acme.dev`, `2@acme.dev` and so on. */
const insertNumberedInvitations = (accountId: string, invitedBy: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO invitations (token_hash, id, account_id, kind, role, email, invited_by, expires_at, created_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?1)
      SELECT 'hash-' || ?2 || n, 'inv_' || ?2 || n, ?2, 'invite', 'viewer', n || '@acme.dev', ?3, ?4, 0 FROM counted`,
  )
    .bind(count, accountId, invitedBy, Date.now() + dayMs)
    .run();

/** Sets the expiry time of an account's invitation to a time in the past. */
const expireInvitation = (accountId: string, email: string) =>
  env.DB.prepare("UPDATE invitations SET expires_at = 0 WHERE account_id = ? AND email = ?").bind(accountId, email).run();

const countSessions = (memberId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM sessions WHERE member_id = ?").bind(memberId).first<number>("count");

describe("The stored bytes of an account", () => {
  it("include every text column of every table that has rows of accounts", async () => {
    const tables = await readCountedTables();
    expect(tables.length).toBeGreaterThanOrEqual(15);
    for (const { name, sql, columns } of tables) {
      expect(columns.find((column) => column.name === "row_bytes")?.hidden, `${name} has a column row_bytes`).toBe(2);
      const [, expression = ""] = /`row_bytes` integer GENERATED ALWAYS AS (.*?) VIRTUAL/.exec(sql) ?? [];
      if (name === "deliveries") expect(expression).toBe(`(${deliveryBytes})`);
      else
        for (const column of columns.filter(({ type }) => /^text$/i.test(type)))
          expect(expression, `row_bytes of ${name} counts ${column.name}`).toContain(`\`${column.name}\``);
      if (name === "attempts") expect(expression).toContain(`iif(\`error\` IS NULL, ${includedAttemptBytes}, 0)`);
    }
  });

  it("are updated by triggers of every such table, which find the account of a row", async () => {
    const triggers = await readTriggers();
    for (const table of await readCountedTables()) {
      const trigger = (change: string) => triggers.get(`${table.name}_${change}`)?.replaceAll("`", "");
      expect(trigger("added")).toContain("NEW.row_bytes");
      expect(trigger("deleted")).toContain(accountExpression(table, "OLD"));
      // The size of a delivery never changes.
      if (table.name !== "deliveries") expect(trigger("changed")).toContain(accountExpression(table, "NEW"));
    }
  });

  it("equal the sum of all row sizes after any changes in any order", { tags: ["long"], timeout: 300_000 }, async () => {
    const tenant = await makeTenant();
    const { accountId, key } = tenant;
    const owner = await makePerson(accountId);
    const [working, failing] = [await register(key), await register(key, {}, newPath("fail"))];
    const origin = { ip: "203.0.113.7", country: "DE", userAgent: "a browser" };
    const context = { db, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }) };
    const texts = ["x", "ä".repeat(300), "😀".repeat(2000), "x".repeat(9000)];
    const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(Math.random() * items.length)] as Item;
    const pickRow = async (table: string) => pick(await readIds(table, accountId));
    const keyIds: string[] = [];
    const api = (method: string, path: string, body?: object) =>
      call(method, `/api/v1${path}`, {
        key,
        ...(body && { body }),
        ...(method === "POST" && Math.random() < 0.5 && { "Idempotency-Key": crypto.randomUUID() }),
      });
    const steps: Record<string, () => Promise<unknown>> = {
      "create task": () => api("POST", "/tasks", { title: "x", description: pick(texts), labels: ["a"] }),
      "update task": async () => api("PATCH", `/tasks/${await pickRow("tasks")}`, { description: pick(texts) }),
      "delete task": async () => api("DELETE", `/tasks/${await pickRow("tasks")}`),
      "create user": () => api("POST", "/users", { name: "Ada", email: `${crypto.randomUUID()}@example.com` }),
      "update user": async () => api("PATCH", `/users/${await pickRow("users")}`, { name: pick(texts.slice(0, 1)) }),
      "delete user": async () => api("DELETE", `/users/${await pickRow("users")}`),
      "create key": async () => void keyIds.push((await api("POST", "/keys", { name: "More" })).body.id),
      "update key": () =>
        api("PATCH", `/keys/${pick(keyIds)}`, { name: pick(["a", "b".repeat(90)]), allowed_ips: pick([[], ["203.0.113.7"]]) }),
      "rotate key": () => api("POST", `/keys/${pick(keyIds)}/rotate`, { overlap_seconds: pick([0, 60]) }),
      "revoke key": () => api("DELETE", `/keys/${pick(keyIds)}`),
      "update webhook": () => api("PATCH", `/webhooks/${working.id}`, { description: pick(["", "x".repeat(400)]) }),
      "rotate webhook secret": () => api("POST", `/webhooks/${working.id}/rotate-secret`, { overlap_seconds: pick([0, 60]) }),
      redeliver: () => api("POST", `/webhooks/${working.id}/redeliver`, { from: new Date(0).toISOString(), status: "delivered" }),
      "replace recovery codes": () => replaceRecoveryCodes(context, { member: owner.member, session: null }),
      "open session": () => openSession({ db }, owner.proof, Date.now(), origin),
      "attempt deliveries": async () => {
        const ids = await makePendingDeliveriesDue(accountId);
        const body = pick(["", "x".repeat(16 * 1024), "\ufffd".repeat(5000)]);
        const fetch = async () => new Response(body, { status: pick([200, 500]) });
        for (const id of ids.slice(0, 3)) await attemptDelivery(id, { fetch });
      },
    };
    for (const name of ["create task", "create task", "create user", "create user", "create key", "create key"]) await steps[name]?.();
    // First, each step runs once. After that, the test runs randomly chosen steps.
    const names = Object.keys(steps);
    const order = Array.from({ length: inject("isLong") ? 100 : 30 }, (_, index) => names[index] ?? pick(names));
    for (const name of order) await steps[name]?.();
    await vi.waitFor(async () => {
      const deliveries: { attempts_made: number }[] = await deliveriesOf(tenant, failing.id);
      expect(Math.max(...deliveries.map(({ attempts_made }) => attempts_made))).toBeGreaterThan(0);
    }, queueWait);
    // A delivery attempt may end between the two reads. The two values may therefore differ for a short time.
    await vi.waitFor(
      async () => expect((await readStoredBytes(accountId)) - (await sumRowBytes(accountId)), order.join(", ")).toBe(0),
      queueWait,
    );
    expect(await readStoredBytes(accountId)).toBeGreaterThan(100_000);
  });
});

it("An account has at most 1,000 members and open invitations", async () => {
  const { accountId } = await makeTenant();
  const owner = await makePerson(accountId);
  await insertNumberedInvitations(accountId, owner.member.id, maxMembers - 2);
  const invite = (email: string) => owner.post("/settings/invitations", { email, role: "viewer", nonce: crypto.randomUUID() });
  expect((await invite("last@acme.dev")).status).toBe(200);
  const denied = await invite("late@acme.dev");
  expect([denied.status, denied.text.includes("1,000 members and open invitations")]).toEqual([422, true]);
  await expireInvitation(accountId, "1@acme.dev");
  expect((await invite("late@acme.dev")).status).toBe(200);
});

it("A member has at most 50 sessions, and a further session ends the oldest", async () => {
  const { accountId } = await makeTenant();
  const { member, proof } = await makePerson(accountId);
  for (let n = 0; n < maxSessions + 3; n++) await openSession({ db }, proof, Date.now() + n, noOrigin);
  expect(await countSessions(member.id)).toBe(maxSessions);
});
