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
import { attemptDelivery, deliveriesOf, deliveryWait, newPath, register } from "../support/receiver.ts";
import {
  accountExpression,
  readCountedTables,
  readDatabaseSize,
  readIds,
  readStoredBytes,
  readTriggers,
  sumRowBytes,
} from "../support/storage-rows.ts";

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

/**
 * Inserts 4,000 events, 4,000 deliveries with one attempt each, 4,000 tasks and 4,000 audit entries. The numbers of the rows start at
 * `from`.
 */
async function insertTypicalRows(accountId: string, from: number): Promise<void> {
  const values = JSON.stringify(Array.from({ length: 4000 }, (_, index) => index));
  const id = (prefix: string) => `'${prefix}_' || printf('%012x%020x', 1790000000000 + ${from} + value, random() & 0xffffffff)`;
  const text = (length: string) => `substr(replace(hex(zeroblob(500)), '0', 'lorem '), 1, ${length})`;
  for (const sql of [
    `INSERT INTO events (account_id, id, type, data, created_at, sequence, request_id)
      SELECT ?1, ${id("evt")}, 'task.created', ${text("300 + value % 400")}, 1790000000000, 1790000000000000 + ${from} + value, ${id("req")}
      FROM json_each(?2)`,
    `INSERT INTO deliveries
        (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT ${id("dlv")}, ?1, 'whk_019a1b2c3d4e7f8091a2b3c4d5e6f708', ${id("evt")}, 'task.created', 'delivered', 1, NULL, 0, 1790000000000
      FROM json_each(?2)`,
    `INSERT INTO tasks
        (id, account_id, title, description, search_text, status, priority, labels, revision, created_at, updated_at)
      SELECT ${id("tsk")}, ?1, 'Write the notes', ${text("value % 400")}, ${text("20 + value % 400")}, 'todo', 'normal', '[]',
        '0123456789abcdef', 1790000000000, 1790000000000 + value
      FROM json_each(?2)`,
    `INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, target_name, ip, country, changes)
      SELECT ?1, ${id("aud")}, 'key', 'key_0123456789abcdef', 'key.updated', 'key', 'key_0123456789abcdef', 'Production', '203.0.113.7',
        'DE', '["name"]'
      FROM json_each(?2)`,
  ])
    await env.DB.prepare(sql).bind(accountId, values).run();
  await env.DB.prepare(
    `INSERT INTO attempts (delivery_id, id, at, status, duration_ms, response_body, response_headers)
      SELECT id, 'att_' || substr(id, 5), 1790000000000, 200, 84, 'ok', ${text("370")} FROM deliveries
      WHERE account_id = ? AND NOT EXISTS (SELECT 1 FROM attempts WHERE delivery_id = deliveries.id)`,
  )
    .bind(accountId)
    .run();
}

/** Deletes all rows of an account from the tables that `insertTypicalRows` fills. */
const deleteTypicalRows = (accountId: string) =>
  env.DB.batch([
    env.DB.prepare("DELETE FROM attempts WHERE delivery_id IN (SELECT id FROM deliveries WHERE account_id = ?)").bind(accountId),
    ...["deliveries", "events", "tasks", "audit"].map((table) =>
      env.DB.prepare(`DELETE FROM ${table} WHERE account_id = ?`).bind(accountId),
    ),
  ]);

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

  it("equal the sum of all row sizes after any changes in any order", { tags: ["long"] }, async () => {
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
    }, deliveryWait);
    // A delivery attempt may end between the two reads. The two values may therefore differ for a short time.
    await vi.waitFor(
      async () => expect((await readStoredBytes(accountId)) - (await sumRowBytes(accountId)), order.join(", ")).toBe(0),
      deliveryWait,
    );
    expect(await readStoredBytes(accountId)).toBeGreaterThan(100_000);
  });

  it("are between 97 % and 120 % of the bytes by which the database file grows", async () => {
    const { accountId } = await makeTenant();
    // Other tests have left free pages in the database file. The first rows fill these pages.
    await insertTypicalRows(accountId, 0);
    await insertTypicalRows(accountId, 4000);
    const [sizeBefore, bytesBefore] = [await readDatabaseSize(), await readStoredBytes(accountId)];
    await insertTypicalRows(accountId, 8000);
    const [grown, counted] = [(await readDatabaseSize()) - sizeBefore, (await readStoredBytes(accountId)) - bytesBefore];
    await deleteTypicalRows(accountId);
    expect(counted / grown).toBeGreaterThan(0.97);
    expect(counted / grown).toBeLessThan(1.2);
    expect(await readStoredBytes(accountId)).toBe(await sumRowBytes(accountId));
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
