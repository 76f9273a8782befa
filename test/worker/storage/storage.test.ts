import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { maxMembers } from "../../../src/identity/invitations.ts";
import { replaceRecoveryCodes } from "../../../src/identity/recovery-codes.ts";
import { maxSessions, openSession } from "../../../src/identity/sessions.ts";
import { deliveryBytes, includedAttemptBytes } from "../../../src/storage/storage.ts";
import { dayMs } from "../../../src/time/clock.ts";
import { deliver } from "../../../src/webhooks/deliver.ts";
import { commitTo } from "../../../src/webhooks/outbox.ts";
import { call, db, makeTenant } from "../support/client.ts";
import { makePerson } from "../support/people.ts";
import { deliveriesOf, delivering, newPath, register, until } from "../support/receiver.ts";

/** Of the operator, who keeps them when the account is erased, and the counters themselves. */
const uncounted = ["account_storage", "erasures", "operator_audit"];

interface Table {
  name: string;
  sql: string;
  columns: { name: string; type: string; hidden: number }[];
}

/** The tables that have rows of accounts: of one by itself, by its member or by its delivery. */
async function tablesOfAccounts(): Promise<Table[]> {
  const { results } = await env.DB.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").all<Table>();
  const all = await Promise.all(
    results
      .filter(({ name }) => !/^(sqlite|d1|_cf)_/.test(name))
      .map(async (table) => {
        const columns = await env.DB.prepare(`PRAGMA table_xinfo(${table.name})`).all<Table["columns"][number]>();
        return { ...table, columns: columns.results };
      }),
  );
  const has = ({ columns }: Table, column: string) => columns.some(({ name }) => name === column);
  return all.filter(
    (table) => !uncounted.includes(table.name) && ["account_id", "member_id", "delivery_id"].some((column) => has(table, column)),
  );
}

/** What a trigger has to say, where `row` is NEW or OLD. */
function accountOf({ columns }: Table, row: "NEW" | "OLD"): string {
  const names = columns.map(({ name }) => name);
  if (names.includes("account_id")) return `${row}.account_id`;
  const [owners, id] = names.includes("member_id") ? ["members", "member_id"] : ["deliveries", "delivery_id"];
  return `(SELECT account_id FROM ${owners} WHERE id = ${row}.${id})`;
}

const plain = (sql: string) => sql.replaceAll("`", "").replaceAll(/\s+/g, " ");

/** What all rows of an account take, counted anew. */
async function recounted(accountId: string): Promise<number> {
  const counts = (await tablesOfAccounts()).map((table) =>
    env.DB.prepare(`SELECT coalesce(sum(row_bytes), 0) AS bytes FROM ${table.name} AS NEW WHERE ${accountOf(table, "NEW")} = ?`).bind(
      accountId,
    ),
  );
  return (await env.DB.batch<{ bytes: number }>(counts)).reduce((sum, { results }) => sum + (results[0]?.bytes ?? 0), 0);
}

const bytesOf = async (accountId: string) =>
  (await env.DB.prepare("SELECT bytes FROM account_storage WHERE account_id = ?").bind(accountId).first<number>("bytes")) ?? 0;

describe("The bytes of an account", () => {
  it("are counted of every table that has rows of accounts, with every text in it", async () => {
    const tables = await tablesOfAccounts();
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

  it("are kept by triggers of every such table, each in one line", async () => {
    const { results } = await env.DB.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").all<{
      name: string;
      sql: string;
    }>();
    const triggers = new Map(results.map(({ name, sql }) => [name, sql]));
    for (const sql of triggers.values()) expect(sql).not.toContain("\n");
    for (const table of await tablesOfAccounts()) {
      const of = (what: string) => plain(triggers.get(`${table.name}_${what}`) ?? `no trigger ${table.name}_${what}`);
      expect(of("added")).toMatch(/AFTER INSERT .* ON CONFLICT \(account_id\) DO UPDATE SET bytes = bytes \+ excluded\.bytes\b/);
      expect(of("added")).toContain("NEW.row_bytes");
      expect(of("deleted")).toMatch(/AFTER DELETE .* SET bytes = bytes - OLD\.row_bytes\b/);
      expect(of("deleted")).toContain(`account_id = ${accountOf(table, "OLD")};`);
      if (table.name === "deliveries") continue;
      expect(of("changed")).toContain(
        `AFTER UPDATE ON ${table.name} WHEN NEW.row_bytes <> OLD.row_bytes BEGIN UPDATE account_storage SET bytes = bytes + NEW.row_bytes - OLD.row_bytes WHERE account_id = ${accountOf(table, "NEW")};`,
      );
    }
  });

  it("are what a recount finds, after any changes in any order", async () => {
    const tenant = await makeTenant();
    const { accountId, key } = tenant;
    const owner = await makePerson(accountId);
    const [taking, failing] = [await register(key), await register(key, {}, newPath("fail"))];
    const from = { ip: "203.0.113.7", country: "DE", userAgent: "a browser" };
    const writing = { db, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }) };
    const texts = ["x", "ä".repeat(300), "😀".repeat(2000), "x".repeat(9000)];
    const some = <Each>(of: readonly Each[]): Each => of[Math.floor(Math.random() * of.length)] as Each;
    const idsOf = async (table: string) =>
      (await env.DB.prepare(`SELECT id FROM ${table} WHERE account_id = ?`).bind(accountId).all<{ id: string }>()).results.map(
        ({ id }) => id,
      );
    const made: string[] = [];
    const once = () => (Math.random() < 0.5 ? {} : { "Idempotency-Key": crypto.randomUUID() });
    const api = (method: string, path: string, body?: object) =>
      call(method, `/api/v1${path}`, { key, ...(body && { body }), ...(method === "POST" && once()) });
    const steps: Record<string, () => Promise<unknown>> = {
      task: () => api("POST", "/tasks", { title: "x", description: some(texts), labels: ["a"] }),
      "task changed": async () => api("PATCH", `/tasks/${some(await idsOf("tasks"))}`, { description: some(texts) }),
      "task deleted": async () => api("DELETE", `/tasks/${some(await idsOf("tasks"))}`),
      user: () => api("POST", "/users", { name: "Ada", email: `${crypto.randomUUID()}@example.com` }),
      "user changed": async () => api("PATCH", `/users/${some(await idsOf("users"))}`, { name: some(texts.slice(0, 1)) }),
      "user deleted": async () => api("DELETE", `/users/${some(await idsOf("users"))}`),
      key: async () => void made.push((await api("POST", "/keys", { name: "More" })).body.id),
      "key changed": () =>
        api("PATCH", `/keys/${some(made)}`, { name: some(["a", "b".repeat(90)]), allowed_ips: some([[], ["203.0.113.7"]]) }),
      "key rotated": () => api("POST", `/keys/${some(made)}/rotate`, { overlap_seconds: some([0, 60]) }),
      "key revoked": () => api("DELETE", `/keys/${some(made)}`),
      "webhook changed": () => api("PATCH", `/webhooks/${taking.id}`, { description: some(["", "x".repeat(400)]) }),
      "secret rotated": () => api("POST", `/webhooks/${taking.id}/rotate-secret`, { overlap_seconds: some([0, 60]) }),
      redelivery: () => api("POST", `/webhooks/${taking.id}/redeliver`, { from: new Date(0).toISOString(), status: "delivered" }),
      codes: () => replaceRecoveryCodes(writing, owner.member),
      session: () => openSession({ db }, owner.member, Date.now(), from, "a passkey"),
      attempt: async () => {
        const { results } = await env.DB.prepare(
          "UPDATE deliveries SET next_attempt_at = 0 WHERE account_id = ? AND status = 'pending' RETURNING id",
        )
          .bind(accountId)
          .all<{ id: string }>();
        const body = some(["", "x".repeat(16 * 1024), "\ufffd".repeat(5000)]);
        const fetch = async () => new Response(body, { status: some([200, 500]) });
        for (const { id } of results.slice(0, 3)) await deliver(delivering({ fetch }), id);
      },
    };
    for (const name of ["task", "task", "user", "user", "key", "key"]) await steps[name]?.();
    const names = Object.keys(steps);
    const done: string[] = [];
    for (let step = 0; step < 60; step++) {
      const name = step < names.length ? (names[step] as string) : some(names);
      done.push(name);
      await steps[name]?.();
    }
    await until(
      () => deliveriesOf(tenant, failing.id),
      (seen) => seen.some(({ attempts_made }: { attempts_made: number }) => attempts_made > 0),
    );
    // A delivery may end between the two.
    const differing = async () => (await bytesOf(accountId)) - (await recounted(accountId));
    expect(await until(differing, (seen) => seen === 0), done.join(", ")).toBe(0);
    expect(await bytesOf(accountId)).toBeGreaterThan(100_000);
  });

  it("are what the file grows by, and at most a fifth more", async () => {
    const { accountId } = await makeTenant();
    const size = async () => (await env.DB.prepare("SELECT 1").run()).meta.size_after ?? 0;
    const id = (prefix: string, from: number) =>
      `'${prefix}_' || printf('%012x%020x', 1790000000000 + ${from} + value, random() & 0xffffffff)`;
    const grow = async (from: number) => {
      const values = JSON.stringify(Array.from({ length: 4000 }, (_, index) => index));
      const text = (length: string) => `substr(replace(hex(zeroblob(500)), '0', 'lorem '), 1, ${length})`;
      for (const sql of [
        `INSERT INTO events (account_id, id, type, data, created_at, sequence, request_id) SELECT ?1, ${id("evt", from)}, 'task.created', ${text("300 + value % 400")}, 1790000000000, 1790000000000000 + ${from} + value, ${id("req", from)} FROM json_each(?2)`,
        `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at) SELECT ${id("dlv", from)}, ?1, 'whk_019a1b2c3d4e7f8091a2b3c4d5e6f708', ${id("evt", from)}, 'task.created', 'delivered', 1, NULL, 0, 1790000000000 FROM json_each(?2)`,
        `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, revision, created_at, updated_at) SELECT ${id("tsk", from)}, ?1, 'Write the notes', ${text("value % 400")}, ${text("20 + value % 400")}, 'todo', 'normal', '[]', '0123456789abcdef', 1790000000000, 1790000000000 + value FROM json_each(?2)`,
        `INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, target_name, ip, country, changes) SELECT ?1, ${id("aud", from)}, 'key', 'key_0123456789abcdef', 'key.updated', 'key', 'key_0123456789abcdef', 'Production', '203.0.113.7', 'DE', '["name"]' FROM json_each(?2)`,
      ])
        await env.DB.prepare(sql).bind(accountId, values).run();
      await env.DB.prepare(
        `INSERT INTO attempts (delivery_id, id, at, status, duration_ms, response_body, response_headers) SELECT id, 'att_' || substr(id, 5), 1790000000000, 200, 84, 'ok', ${text("370")} FROM deliveries WHERE account_id = ? AND NOT EXISTS (SELECT 1 FROM attempts WHERE delivery_id = deliveries.id)`,
      )
        .bind(accountId)
        .run();
    };
    // Pages that other tests have left free are used first.
    await grow(0);
    await grow(4000);
    const [sizeBefore, bytesBefore] = [await size(), await bytesOf(accountId)];
    await grow(8000);
    const [grown, counted] = [(await size()) - sizeBefore, (await bytesOf(accountId)) - bytesBefore];
    await env.DB.batch([
      env.DB.prepare("DELETE FROM attempts WHERE delivery_id IN (SELECT id FROM deliveries WHERE account_id = ?)").bind(accountId),
      ...["deliveries", "events", "tasks", "audit"].map((table) =>
        env.DB.prepare(`DELETE FROM ${table} WHERE account_id = ?`).bind(accountId),
      ),
    ]);
    expect(counted / grown).toBeGreaterThan(0.97);
    expect(counted / grown).toBeLessThan(1.2);
    expect(await bytesOf(accountId)).toBe(await recounted(accountId));
  });
});

it("An account has 1,000 members and open invitations at most, so that nobody fills the database with people", async () => {
  const { accountId } = await makeTenant();
  const owner = await makePerson(accountId);
  const put = (n: number) =>
    env.DB.prepare(
      `INSERT INTO invitations (token_hash, id, account_id, kind, role, email, invited_by, expires_at, created_at)
        WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?)
        SELECT 'hash-' || ? || n, 'inv_' || ? || n, ?, 'invite', 'viewer', n || '@acme.dev', ?, ?, 0 FROM counted`,
    ).bind(n, accountId, accountId, accountId, owner.member.id, Date.now() + dayMs);
  await put(maxMembers - 2).run();
  const invite = (email: string) => owner.post("/settings/invitations", { email, role: "viewer", nonce: crypto.randomUUID() });
  expect((await invite("last@acme.dev")).status).toBe(200);
  const refused = await invite("late@acme.dev");
  expect([refused.status, refused.text.includes("1,000 members and open invitations")]).toEqual([422, true]);
  await env.DB.prepare("UPDATE invitations SET expires_at = 0 WHERE account_id = ? AND email = '1@acme.dev'").bind(accountId).run();
  expect((await invite("late@acme.dev")).status).toBe(200);
});

it("A member has 50 sessions at most: the one after that ends the oldest", async () => {
  const { accountId } = await makeTenant();
  const { member } = await makePerson(accountId);
  const from = { ip: null, country: null, userAgent: null };
  for (let n = 0; n < maxSessions + 3; n++) await openSession({ db }, member, Date.now() + n, from, "a passkey");
  const { results } = await env.DB.prepare("SELECT id FROM sessions WHERE member_id = ? ORDER BY id").bind(member.id).all();
  expect(results.length).toBe(maxSessions);
});
