import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { tablesOfAccounts } from "../../../src/registry/area-tables.ts";
import { dayMs, dayStart } from "../../../src/time/clock.ts";
import { answerOf, call, cron, makeKey, makeTenant, origin, within2s } from "../support/client.ts";
import { operate, operationsOn, operatorToken } from "../support/operate.ts";
import { makePerson, tokenIn } from "../support/people.ts";
import { deliveriesOf, receivedAt, register, until } from "../support/receiver.ts";

const me = async (key: string) => {
  const { status, body } = await call("GET", "/api/v1/me", { key });
  return status === 200 ? 200 : body.code;
};
const countOf = (sql: string, ...values: unknown[]) =>
  env.DB.prepare(sql)
    .bind(...values)
    .first<number>("count");

describe("The operator's API", () => {
  it.each([
    ["no token", undefined],
    ["another token", "Bearer dvop_another"],
    ["the token's hash", "Bearer 0000"],
    ["a key", "Bearer dvo_0000000000000000_0000000000000000000000000000000000000000"],
    ["a token in another scheme", `Basic ${operatorToken}`],
  ])("is closed to %s", async (name, authorization) => {
    // Each name from an address of its own: an address has ten wrong tokens a minute.
    const from = { "CF-Connecting-IP": `198.18.0.${name.length}` };
    for (const [method, path] of [
      ["GET", "/operator/api/accounts"],
      ["POST", "/operator/api/guards/line-up"],
      ["GET", "/operator/api/none"],
      ["GET", "/operator/api"],
      ["GET", "/metrics"],
    ] as const) {
      const headers = { ...from, ...(authorization !== undefined && { Authorization: authorization }) };
      const answer = await answerOf(await exports.default.fetch(new Request(origin + path, { method, headers })));
      expect([path, answer.status, answer.body.code]).toEqual([path, 401, "invalid_token"]);
      expect(answer.headers.get("WWW-Authenticate")).toBe('Bearer realm="operator"');
      expect(answer.headers.get("Cache-Control")).toBe("no-store");
    }
  });

  it("takes no token from a URL", async () => {
    const path = `/operator/api/accounts?token=${operatorToken}&access_token=${operatorToken}`;
    expect((await exports.default.fetch(new Request(origin + path))).status).toBe(401);
  });

  it("makes an account with a setup link, and says who did", async () => {
    const { status, body } = await operate("POST", "/accounts", { name: "Acme", email: "ops@acme.dev" });
    expect([status, body.name, body.status]).toEqual([201, "Acme", "active"]);
    expect(body.setup_url).toMatch(/^https:\/\/overview\.acme\.dev\/setup#[\w-]{43}$/);
    expect(await operationsOn(body.id)).toEqual(["account.made"]);
    const listed = await operate("GET", "/accounts");
    expect(listed.body.data.length).toBeGreaterThan(0);
  });

  it.each([
    ["POST", "/accounts", { name: "", email: "x" }, 422],
    ["POST", "/accounts", { name: "A" }, 422],
    ["POST", "/accounts", { name: "A", email: "a@b.dev", more: 1 }, 422],
    ["PUT", "/accounts/acc_none/ceiling", { limit: 0 }, 422],
    ["PUT", "/accounts/acc_none/keep-days", { days: 91 }, 422],
    ["PUT", "/accounts/acc_none/storage-quota", { bytes: -1 }, 422],
    ["PUT", "/accounts/acc_none/storage-quota", { bytes: null }, 404],
    ["POST", "/accounts/acc_none/suspend", undefined, 404],
    ["POST", "/accounts/acc_none/erase", { confirm: "acc_none" }, 404],
    ["POST", "/accounts/acc_none/erase", { confirm: "acc_other" }, 409],
    ["GET", "/accounts/acc_none/export", undefined, 404],
    ["POST", "/keys/key_none/revoke", undefined, 404],
    ["GET", "/none", undefined, 404],
    ["POST", "/guards/line-up", { after: "constructor:x" }, 400],
    ["POST", "/guards/line-up", { after: "rows", more: true }, 422],
  ])("refuses %s %s %j with %i", async (method, path, body, status) => {
    const answer = await operate(method, path, body);
    expect([answer.status, answer.headers.get("Content-Type")]).toEqual([status, "application/problem+json"]);
  });

  it("makes, disables, enables and revokes keys, each at once", async () => {
    const { accountId } = await makeTenant();
    const { status, body } = await operate("POST", `/accounts/${accountId}/keys`, { name: "CI", scopes: ["tasks:read"], hourly_limit: 7 });
    expect([status, await me(body.secret_key)]).toEqual([201, 200]);
    await operate("POST", `/keys/${body.id}/disable`);
    expect(await me(body.secret_key)).toBe("disabled_key");
    await operate("POST", `/keys/${body.id}/enable`);
    expect(await me(body.secret_key)).toBe(200);
    await operate("PUT", `/keys/${body.id}/limit`, { limit: 9 });
    expect((await call("GET", "/api/v1/me", { key: body.secret_key })).headers.get("X-RateLimit-Limit")).toBe("9");
    await operate("POST", `/keys/${body.id}/revoke`);
    expect(await me(body.secret_key)).toBe("revoked_key");
    expect(await operationsOn(accountId)).toEqual(["key.revoked", "key.limited", "key.enabled", "key.disabled", "key.made"]);
    const { body: listed } = await operate("GET", `/accounts/${accountId}/keys`);
    expect(listed.data[0]).toMatchObject({ id: body.id, status: "revoked", hourly_limit: 9 });
    expect(JSON.stringify(listed)).not.toContain(body.secret_key.slice(-20));
  });

  it("lowers keys to a new ceiling, and lets no key above it", async () => {
    const { accountId, key } = await makeTenant();
    const { keyId } = await makeKey(accountId, { hourlyLimit: 50 });
    const { body } = await operate("PUT", `/accounts/${accountId}/ceiling`, { limit: 100 });
    expect(body.lowered.length).toBe(1);
    const { headers } = await call("GET", "/api/v1/me", { key });
    expect(headers.get("X-RateLimit-Limit")).toBe("100");
    expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { hourly_limit: 101 } })).status).toBe(422);
    await operate("PUT", `/accounts/${accountId}/ceiling`, { limit: 9000 });
    expect((await operate("POST", `/accounts/${accountId}/keys`, { name: "Big", hourly_limit: 9000 })).status).toBe(201);
  });

  it("shows what an account stores, sets its quota, and sets how long its log is kept", async () => {
    const { accountId, key } = await makeTenant();
    await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const { body } = await operate("GET", `/accounts/${accountId}/storage`);
    expect(body.tasks).toEqual({ stored: 1, most: 100_000 });
    expect([body.bytes.most, body.bytes.stored > 1000, body.dropped_events]).toEqual([256 * 1024 * 1024, true, 0]);
    expect((await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: 1000 })).body).toEqual({ storage_quota_bytes: 1000 });
    expect((await operate("GET", `/accounts/${accountId}/storage`)).body.bytes).toEqual({ stored: expect.any(Number), most: 1000 });
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "x" } })).body.code).toBe("limit_reached");
    await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: null });
    expect((await operate("GET", `/accounts/${accountId}`)).body.storage_quota_bytes).toBe(256 * 1024 * 1024);
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "x" } })).status).toBe(201);
    await operate("PUT", `/accounts/${accountId}/keep-days`, { days: 7 });
    expect((await operate("GET", `/accounts/${accountId}`)).body.keep_days).toBe(7);
    await operate("PUT", `/accounts/${accountId}/keep-days`, { days: null });
    expect((await operate("GET", `/accounts/${accountId}`)).body.keep_days).toBeNull();
  });

  it("makes a link for an account that has lost its owners, and ends the one before", async () => {
    const { accountId } = await makeTenant();
    await makePerson(accountId);
    const first = await operate("POST", `/accounts/${accountId}/owners`);
    const second = await operate("POST", `/accounts/${accountId}/owners`);
    expect(first.body.setup_url).not.toBe(second.body.setup_url);
    expect(await countOf("SELECT count(*) AS count FROM invitations WHERE account_id = ? AND used_by IS NULL", accountId)).toBe(1);
  });
});

describe("A suspended account", () => {
  it("has all its keys refused from when the call returned, uncounted, until it is resumed", async () => {
    const { accountId, key } = await makeTenant();
    const other = await makeKey(accountId);
    expect([await me(key), await me(other.key)]).toEqual([200, 200]);
    expect((await operate("POST", `/accounts/${accountId}/suspend`)).body.keys).toBe(2);
    for (const each of [key, other.key]) {
      const { status, body, headers } = await call("GET", "/api/v1/me", { key: each });
      expect([status, body.code, headers.get("X-RateLimit-Used")]).toEqual([403, "account_suspended", "1"]);
    }
    expect((await operate("POST", `/accounts/${accountId}/suspend`)).status).toBe(200);
    await operate("POST", `/accounts/${accountId}/resume`);
    expect([await me(key), await me(other.key)]).toEqual([200, 200]);
    expect(await operationsOn(accountId)).toEqual(["account.resumed", "account.suspended"]);
  });

  it("is suspended, resumed and lowered by its live keys alone, however many have expired; an expired one comes back within the ceiling", async () => {
    const { accountId, keyId } = await makeTenant();
    const { keyId: last, key: lastSecret } = await makeKey(accountId);
    const expire = (id: string) => env.DB.prepare("UPDATE api_keys SET expires_at = 1 WHERE id = ?").bind(id).run();
    await expire(last);
    await env.DB.prepare(
      `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at, version, pushed_version,
        revision, created_at, updated_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000)
      SELECT id || n, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, 1, 1, 1, revision, 1, 1 FROM api_keys, counted WHERE id = ?`,
    )
      .bind(keyId)
      .run();
    const owner = await makePerson(accountId);
    const maker = await makePerson(accountId, "admin");
    await env.DB.prepare(
      "UPDATE api_keys SET created_by_type = 'member', created_by_id = ? WHERE account_id = ? AND expires_at = 1 AND id <> ?",
    )
      .bind(maker.member.id, accountId, last)
      .run();
    expect((await owner.post(`/settings/people/${maker.member.id}/remove`, { listed: "yes" })).status).toBe(303);
    expect(await countOf("SELECT count(*) AS count FROM api_keys WHERE account_id = ? AND version > 1", accountId)).toBe(0);
    // Of expired keys it would tell the guards one by one.
    await env.DB.prepare("UPDATE api_keys SET version = 2 WHERE account_id = ? AND expires_at = 1 AND id <> ?").bind(accountId, last).run();
    expect((await operate("POST", `/accounts/${accountId}/suspend`)).body.keys).toBe(1);
    expect((await operate("POST", `/accounts/${accountId}/resume`)).body.keys).toBe(1);
    await env.DB.prepare("UPDATE api_keys SET pushed_version = version WHERE account_id = ? AND expires_at = 1").bind(accountId).run();
    expect((await operate("PUT", `/accounts/${accountId}/ceiling`, { limit: 100 })).body.lowered).toEqual([keyId]);
    const revive = (more: Record<string, string>) =>
      owner.post(`/keys/${last}`, { expires_at: new Date(Date.now() + dayMs).toISOString().slice(0, 16), ...more });
    const refused = await revive({});
    expect([refused.status, refused.text.includes("Must be at most 100")]).toEqual([422, true]);
    expect((await revive({ hourly_limit: "100" })).status).toBe(303);
    const { status, headers } = await call("GET", "/api/v1/me", { key: lastSecret });
    expect([status, headers.get("X-RateLimit-Limit")]).toEqual([200, "100"]);
  });

  it("changes nothing more by a request that was admitted before", async () => {
    const { accountId, key } = await makeTenant();
    expect(await me(key)).toBe(200);
    // D1 knows already, the guard does not yet.
    await env.DB.prepare("UPDATE accounts SET suspended_at = 1 WHERE id = ?").bind(accountId).run();
    const { status, body } = await call("POST", "/api/v1/tasks", { key, body: { title: "late" } });
    expect([status, body.code]).toEqual([403, "account_suspended"]);
  });

  it("has its deliveries held, and sent when it is resumed", async () => {
    const tenant = await makeTenant();
    const webhook = await register(tenant.key, { event_types: ["task.created"] });
    await operate("POST", `/accounts/${tenant.accountId}/suspend`);
    // Made by the operator's own change.
    await env.DB.prepare("UPDATE webhooks SET event_types = '[\"*\"]' WHERE id = ?").bind(webhook.id).run();
    await operate("POST", `/accounts/${tenant.accountId}/keys`, { name: "Made meanwhile" });
    await cron(Date.now() + 10_000);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await receivedAt(webhook.path)).toEqual([]);
    await operate("POST", `/accounts/${tenant.accountId}/resume`);
    await cron(Date.now() + 10_000);
    const received = await until(
      () => receivedAt(webhook.path),
      (seen) => seen.length > 0,
    );
    expect(received.map(({ body }) => JSON.parse(body).type)).toContain("key.created");
    expect((await deliveriesOf(tenant, webhook.id))[0].status).toBe("delivered");
  });

  it("lets its members look, sign out, and change nothing", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    await operate("POST", `/accounts/${accountId}/suspend`);
    const page = await owner.get("/keys");
    expect([page.status, page.text.includes("This account has been suspended")]).toEqual([200, true]);
    const made = await owner.post("/keys", { name: "No" });
    expect([made.status, made.text.includes("suspended")]).toEqual([403, true]);
    expect((await owner.post("/settings/recovery-codes")).status).toBe(403);
    expect((await owner.post("/preferences", { theme: "dark", return_to: "/" })).status).toBe(303);
    expect((await owner.post("/logout")).status).toBe(303);
    expect((await owner.get("/")).status).toBe(303);
  });

  it("lets nobody in by a link that was made before", async () => {
    const { accountId } = await makeTenant();
    await operate("POST", `/accounts/${accountId}/suspend`);
    await expect(makePerson(accountId)).rejects.toMatchObject({ code: "account_suspended" });
    expect(await countOf("SELECT count(*) AS count FROM members WHERE account_id = ?", accountId)).toBe(0);
  });

  it("stays suspended where D1 was set back to before, once its guards are lined up", async () => {
    const { accountId, key, keyId } = await makeTenant();
    expect(await me(key)).toBe(200);
    const before = await env.DB.prepare("SELECT version, pushed_version, revision FROM api_keys WHERE account_id = ?")
      .bind(accountId)
      .first();
    await operate("POST", `/accounts/${accountId}/suspend`);
    await env.DB.prepare("UPDATE accounts SET suspended_at = NULL WHERE id = ?").bind(accountId).run();
    await env.DB.prepare("UPDATE api_keys SET version = ?, pushed_version = ?, revision = ? WHERE account_id = ?")
      .bind(before?.version, before?.pushed_version, before?.revision, accountId)
      .run();
    await lineUp(accountId, keyId);
    expect((await operate("GET", `/accounts/${accountId}`)).body.status).toBe("suspended");
    expect(await me(key)).toBe("account_suspended");
  });
});

/** The pieces of the work that these keys of an account come up in: all of it would go through the keys of every other test. */
async function lineUp(accountId: string, ...keyIds: string[]) {
  const all = { reconciled: [] as string[], revoked: [] as string[] };
  for (const after of [...keyIds.map((id) => `rows:${id.slice(0, -1)}`), `audit:${accountId}/`]) {
    const { status, body } = await operate("POST", "/guards/line-up", { after });
    expect([status, body.unreachable]).toEqual([200, []]);
    all.reconciled.push(...body.reconciled);
    all.revoked.push(...body.revoked);
  }
  return all;
}

describe("Lining up the guards", () => {
  it("goes from piece to piece: rows of keys, then the audit log, then the uses of keys in each database", async () => {
    const seen: string[] = [];
    for (const after of ["rows:key_zzzzzzzzzzzzzzzz", "audit:acc_z/", "uses-ACTIVITY_0:acc_z/", "uses-ACTIVITY_1:acc_z/"])
      seen.push((await operate("POST", "/guards/line-up", { after })).body.next);
    expect(seen).toEqual(["audit:", "uses-ACTIVITY_0:", "uses-ACTIVITY_1:", null]);
  });

  it("gives rows what their guards know better, and has guards without a row refuse", async () => {
    const { accountId, key } = await makeTenant();
    const [revoked, lost] = [await makeKey(accountId), await makeKey(accountId)];
    const before = await env.DB.prepare("SELECT * FROM api_keys WHERE id = ?").bind(revoked.keyId).first<Record<string, unknown>>();
    expect([await me(revoked.key), await me(lost.key)]).toEqual([200, 200]);
    await call("DELETE", `/api/v1/keys/${revoked.keyId}`, { key });
    // D1 is set back to before the revocation, and before the other key was made through the API.
    await env.DB.prepare("UPDATE api_keys SET state = 'active', version = ?, pushed_version = ?, revision = ? WHERE id = ?")
      .bind(before?.version, before?.pushed_version, before?.revision, revoked.keyId)
      .run();
    await env.DB.prepare("DELETE FROM api_keys WHERE id = ?").bind(lost.keyId).run();
    expect(await me(lost.key)).toBe(200);
    const done = await lineUp(accountId, revoked.keyId);
    expect(done.reconciled).toContain(revoked.keyId);
    expect(done.revoked).toContain(lost.keyId);
    expect([await me(revoked.key), await me(lost.key), await me(key)]).toEqual(["revoked_key", "revoked_key", 200]);
    expect(await env.DB.prepare("SELECT state FROM api_keys WHERE id = ?").bind(revoked.keyId).first("state")).toBe("revoked");
  });
});

describe("The secrets of the Worker", () => {
  it("are counted by what needs them, and webhooks are sealed anew with the newest", async () => {
    const { key, accountId } = await makeTenant();
    const webhook = await register(key, { event_types: ["task.created"] });
    const sealed = () =>
      env.DB.prepare("SELECT sealed_secret AS sealed FROM webhooks WHERE id = ?").bind(webhook.id).first<string>("sealed");
    const before = await sealed();
    expect(before?.startsWith("b.")).toBe(true);
    const { encrypt } = await import("../../../src/webhooks/encryption.ts");
    const older = { name: "a", secret: "sealing-secret-of-the-tests".padEnd(40, "-") };
    await env.DB.prepare("UPDATE webhooks SET sealed_secret = ? WHERE id = ?")
      .bind(await encrypt(webhook.secret, webhook.id, [older]), webhook.id)
      .run();
    const counted = await operate("GET", "/secrets");
    expect(counted.body.signing.find(({ name }: { name: string }) => name === "b")).toMatchObject({ isNewest: true, isThere: true });
    expect(counted.body.sealing.find(({ name }: { name: string }) => name === "a").used).toBeGreaterThan(0);
    for (let hasMore = true; hasMore; ) hasMore = (await operate("POST", "/secrets/reseal")).body.has_more;
    expect((await sealed())?.startsWith("b.")).toBe(true);
    const after = await operate("GET", "/secrets");
    expect(after.body.sealing.find(({ name }: { name: string }) => name === "a").used).toBe(0);
    await call("POST", "/api/v1/tasks", { key, body: { title: "sealed anew" } });
    const [received] = await until(
      () => receivedAt(webhook.path),
      (seen) => seen.length > 0,
    );
    const { Webhook } = await import("standardwebhooks");
    expect(new Webhook(webhook.secret).verify(received?.body ?? "", received?.headers ?? {})).toMatchObject({ type: "task.created" });
    expect(accountId).toBeTruthy();
  });
});

describe("An export", () => {
  it("has all that there is of an account, a JSON object a line, and no secret", async () => {
    const { accountId, key } = await makeTenant();
    const owner = await makePerson(accountId);
    const webhook = await register(key);
    const { headers } = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    await call("PATCH", headers.get("Location") ?? "", { key, body: { name: "Ada L." } });
    for (let n = 0; n < 3; n++) await call("POST", "/api/v1/tasks", { key, body: { title: `Task ${n}`, labels: ["x"] } });
    await until(
      () => receivedAt(webhook.path),
      (seen) => seen.length >= 4,
    );
    await within2s(
      () => call("GET", "/api/v1/activity", { key }),
      (seen) => seen.body.data.length >= 5,
    );
    for (const after of ['["task",[1,2,3]]', '["task",[{}]]', '["none",[]]', "x"])
      expect((await operate("GET", `/accounts/${accountId}/export?after=${encodeURIComponent(after)}`)).status).toBe(400);
    const lines = await exported(accountId);
    const types = Map.groupBy(lines, ({ type }) => type);
    expect(types.get("task")?.length).toBe(3);
    const previous = types.get("event")?.flatMap(({ data }) => (data as { previous: unknown }).previous ?? []);
    expect(previous).toMatchObject([{ name: "Ada" }]);
    expect(types.get("task")?.[0]?.data).toMatchObject({ labels: ["x"], created_at: expect.stringMatching(/Z$/) });
    for (const type of [
      "account",
      "member",
      "passkey",
      "session",
      "key",
      "user",
      "webhook",
      "event",
      "delivery",
      "attempt",
      "audit",
      "request",
    ])
      expect([type, (types.get(type)?.length ?? 0) > 0]).toEqual([type, true]);
    const text = JSON.stringify(lines);
    for (const secret of [key, key.slice(-40), webhook.secret, tokenIn(owner.cookie), "sealed", "_hash"])
      expect([secret, text.includes(secret)]).toEqual([secret, false]);
  });
});

async function exported(accountId: string): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const { text, headers } = await operate("GET", `/accounts/${accountId}/export${next && `?after=${next}`}`);
    lines.push(
      ...text
        .trim()
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    );
    next = headers.get("X-Next");
  }
  return lines;
}

describe("Long work that a caller says is under way", () => {
  it("has an entry of the operator's audit for each call", async () => {
    const { accountId } = await makeTenant();
    const { body: before } = await operate("GET", "/audit");
    expect((await operate("GET", `/accounts/${accountId}/export?after=${encodeURIComponent('["account",[]]')}`)).status).toBe(200);
    expect((await operate("POST", "/guards/line-up", { after: "audit:" })).status).toBe(200);
    expect((await operate("POST", "/deliveries/drain", { after: "whk_1" })).status).toBe(200);
    const { body } = await operate("GET", "/audit");
    const known = before.data.map(({ id }: { id: string }) => id);
    const added = body.data.filter(({ id }: { id: string }) => !known.includes(id)).toReversed();
    const continued = { operator: "tests", details: { continued: true } };
    expect(added).toEqual([
      expect.objectContaining({ ...continued, action: "account.exported", account_id: accountId }),
      expect.objectContaining({ ...continued, action: "guards.lined_up" }),
      expect.objectContaining({ ...continued, action: "deliveries.drained" }),
    ]);
  });
});

describe("An export of much", () => {
  it("is in pieces of a bounded size, which neither skip nor repeat", async () => {
    const { accountId } = await makeTenant();
    const rows = Array.from({ length: 401 }, (_, n) => [`tsk_${String(n).padStart(4, "0")}`, accountId, "x".repeat(9000)]);
    for (let from = 0; from < rows.length; from += 100)
      await env.DB.prepare(
        `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, revision, created_at, updated_at)
          SELECT value ->> 0, value ->> 1, 'x', value ->> 2, '', 'todo', 'low', '[]', 'r', 1, 1 FROM json_each(?)`,
      )
        .bind(JSON.stringify(rows.slice(from, from + 100)))
        .run();
    const first = await operate("GET", `/accounts/${accountId}/export`);
    expect([first.text.length < 4_500_000, first.headers.get("X-Next")]).toEqual([true, expect.any(String)]);
    const ids = (await exported(accountId)).filter(({ type }) => type === "task").map(({ data }) => (data as { id: string }).id);
    expect([ids.length, new Set(ids).size]).toEqual([401, 401]);
  });
});

describe("An erasure", () => {
  /** Every table of every database in which the text occurs. */
  async function placesOf(text: string): Promise<string[]> {
    const places: string[] = [];
    for (const [name, database] of [
      ["DB", env.DB],
      ["ACTIVITY_0", env.ACTIVITY_0],
    ] as const) {
      const { results } = await database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all<{ name: string }>();
      for (const { name: table } of results.filter((each) => !/^(sqlite|d1|_cf)_/.test(each.name))) {
        const { results: columns } = await database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all<{ name: string }>();
        const matches = columns.map((column) => `instr(${column.name}, ?1) > 0`).join(" OR ");
        const found = await database.prepare(`SELECT count(*) AS count FROM ${table} WHERE ${matches}`).bind(text).first<number>("count");
        if (found) places.push(`${name}.${table}`);
      }
    }
    return places.toSorted();
  }

  it("leaves nothing of the account in any table or object but its id where operators are audited", async () => {
    const tenant = await makeTenant();
    const { accountId, key, keyId } = tenant;
    const neighbour = await makeTenant();
    const owner = await makePerson(accountId);
    const webhook = await register(key);
    const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id }, "Idempotency-Key": "once" });
    await call("POST", `/api/v1/webhooks/${webhook.id}/redeliver`, { key, body: { from: new Date(0).toISOString() } });
    await call("GET", "/api/v1/usage", { key });
    await call("POST", "/api/v1/tasks", { key: neighbour.key, body: { title: "stays" } });
    await until(
      () => receivedAt(webhook.path),
      (seen) => seen.length >= 2,
    );
    // An entry that is still on its way would be counted by the second report alone.
    const logged = () =>
      env.ACTIVITY_0.prepare("SELECT count(*) AS count FROM activity WHERE account_id = ?").bind(accountId).first<number>("count");
    expect(await until(logged, (count) => count === 5)).toBe(5);
    const writer = env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0");
    await runInDurableObject(writer, (_, state) => {
      const entries = [{ accountId }, { accountId: neighbour.accountId }];
      state.storage.sql.exec("INSERT INTO batches (entries, count) VALUES (?, 2)", JSON.stringify(entries));
    });

    const { status, body } = await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect([status, body.status]).toEqual([200, "erased"]);
    expect(body.erased).toMatchObject({ account: 1, keys: 1, tasks: 1, users: 1, members: 1, sessions: 1, webhooks: 1, responses: 1 });
    expect(Date.parse(body.time_travel_until) - Date.parse(body.finished_at)).toBe(30 * 24 * 3_600_000);
    expect(await me(key)).toBe("invalid_key");
    expect((await owner.get("/keys")).status).toBe(303);
    // What was on its way comes after all: an entry of the log.
    await env.ACTIVITY_0.prepare(
      "INSERT INTO activity (account_id, id, key_id, method, path, route, status, duration_ms, admitted, counted, count) VALUES (?, 'req_late', ?, 'GET', '/', '/', 200, 1, 1, 1, 1)",
    )
      .bind(accountId, keyId)
      .run();
    await cron(Date.now() + 11 * 60_000);
    expect(await placesOf(accountId)).toEqual(["DB.erasures", "DB.operator_audit"]);
    for (const id of [keyId, webhook.id, user.body.id, owner.member.id]) expect(await placesOf(id)).toEqual([]);
    const left = await runInDurableObject(writer, (_, state) => {
      const rows = state.storage.sql.exec<{ entries: string }>("SELECT entries FROM batches").toArray();
      state.storage.sql.exec("DELETE FROM batches");
      return rows.map(({ entries }) => entries).join();
    });
    expect([left.includes(accountId), left.includes(neighbour.accountId)]).toEqual([false, true]);
    const kept = await runInDurableObject(env.KEY_GUARD.getByName(keyId), (_, state) => [
      ...state.storage.kv.list(),
      state.storage.sql.exec("SELECT * FROM events").toArray(),
    ]);
    expect(kept).toEqual([["erased", true], []]);
    expect(await operationsOn(accountId)).toEqual(["account.erased", "account.suspended", "account.erasure_requested"]);
    expect(await me(neighbour.key)).toBe(200);
    expect((await call("GET", "/api/v1/tasks", { key: neighbour.key })).body.data.length).toBe(1);
    // Again: the same report.
    const again = await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect(again.body).toEqual({ ...body, erased: { ...body.erased, requests: body.erased.requests + 1 } });
    expect((await operate("POST", `/accounts/${accountId}/resume`)).status).toBe(409);
  });

  it("and an export take every table that has rows of accounts, unless its manifest says otherwise", async () => {
    const known = new Map(tablesOfAccounts.map(({ name, facts }) => [name, facts]));
    for (const database of [env.DB, env.ACTIVITY_0]) {
      const { results } = await database
        .prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        .all<{ name: string; sql: string }>();
      const ofAccounts = results.filter(({ name, sql }) => /\baccount_id\b/.test(sql) && !/^(sqlite|d1|_cf)_/.test(name));
      const names = ofAccounts.map(({ name }) => name).filter((name) => name !== "account_storage");
      expect(names.length).toBeGreaterThan(5);
      expect(names.filter((name) => !known.has(name))).toEqual([]);
    }
    const kept = [...known].filter(([, { erasure }]) => erasure === "kept").map(([name]) => name);
    expect(kept.toSorted()).toEqual(["erasures", "operator_audit"]);
  });

  it("that was broken off before the account was suspended suspends it, and nothing more is made in it", async () => {
    const { accountId, key } = await makeTenant();
    await env.DB.prepare(
      "INSERT INTO erasures (account_id, activity_store, operator, requested_at, erased) VALUES (?, 'ACTIVITY_0', 'tests', ?, '{}')",
    )
      .bind(accountId, Date.now())
      .run();
    expect((await operate("POST", `/accounts/${accountId}/keys`, { name: "Late" })).status).toBe(409);
    expect((await operate("POST", `/accounts/${accountId}/owners`)).status).toBe(409);
    expect(await me(key)).toBe(200);
    await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect(await operationsOn(accountId)).toEqual(["account.erased", "account.suspended"]);
  });

  it("that was broken off is finished by the clock", async () => {
    const { accountId, key } = await makeTenant();
    await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    await env.DB.prepare(
      "INSERT INTO erasures (account_id, activity_store, operator, requested_at, erased) VALUES (?, 'ACTIVITY_0', 'tests', ?, '{}')",
    )
      .bind(accountId, Date.now() - 120_000)
      .run();
    await cron();
    expect((await operate("GET", `/accounts/${accountId}/erasure`)).body.status).toBe("erased");
    expect((await operate("GET", `/accounts/${accountId}`)).status).toBe(404);
  });

  it("holds though D1 is set back: the row's key is revoked when it is pushed", async () => {
    const { accountId, key, keyId } = await makeTenant();
    expect(await me(key)).toBe(200);
    const [account, row] = [
      await env.DB.prepare("SELECT * FROM accounts WHERE id = ?").bind(accountId).first<Record<string, unknown>>(),
      await env.DB.prepare("SELECT * FROM api_keys WHERE id = ?").bind(keyId).first<Record<string, unknown>>(),
    ];
    // What is computed of a row comes by itself.
    delete row?.row_bytes;
    await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    for (const [table, values] of [
      ["accounts", account],
      ["api_keys", row],
    ] as const)
      await env.DB.prepare(
        `INSERT INTO ${table} (${Object.keys(values ?? {}).join()}) VALUES (${Object.keys(values ?? {}).map(() => "?")})`,
      )
        .bind(...Object.values(values ?? {}))
        .run();
    expect(await me(key)).toBe("invalid_key");
    await lineUp(accountId, keyId);
    expect(await me(key)).toBe("invalid_key");
    expect(await env.DB.prepare("SELECT state FROM api_keys WHERE id = ?").bind(keyId).first("state")).toBe("revoked");
  });
});

describe("Metrics", () => {
  it("are OpenMetrics, of the deployment and of no account", async () => {
    const { accountId } = await makeTenant();
    await cron();
    const answer = await answerOf(
      await exports.default.fetch(new Request(`${origin}/metrics`, { headers: { Authorization: `Bearer ${operatorToken}` } })),
    );
    expect(answer.headers.get("Content-Type")).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
    expect(answer.text.endsWith("# EOF\n")).toBe(true);
    expect(answer.text).toMatch(/^dvo_accounts \d+$/m);
    expect(answer.text).toMatch(/^dvo_database_size_bytes\{database="ACTIVITY_0"\} \d+$/m);
    expect(answer.text).toMatch(/^dvo_unknown_parts 0$/m);
    for (const line of answer.text.trim().split("\n"))
      expect(line).toMatch(/^(# (TYPE|HELP|UNIT) dvo_\w+ .+|# EOF|dvo_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? -?[\d.e+-]+)$/);
    expect(answer.text).not.toContain(accountId);
  });
});

describe("The operator's page", () => {
  const page = (method: string, path: string, headers: Record<string, string> = {}, body?: string) =>
    exports.default.fetch(new Request(origin + path, { method, headers, redirect: "manual", ...(body !== undefined && { body }) }));
  const form = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };

  it("asks for a token, takes it by form alone, and opens for an hour", async () => {
    expect(await (await page("GET", `/operator?token=${operatorToken}`)).text()).toContain("Operator token");
    const wrong = await page("POST", "/operator/session", form, "token=dvop_wrong");
    expect([wrong.status, wrong.headers.get("Set-Cookie")]).toEqual([403, null]);
    const broken = await page("POST", "/operator/session", { Origin: origin, "Content-Type": "multipart/form-data" }, "x");
    expect(broken.status).toBe(415);
    const elsewhere = await page("POST", "/operator/session", { ...form, Origin: "https://evil.example" }, `token=${operatorToken}`);
    expect(elsewhere.status).toBe(403);
    const opened = await page("POST", "/operator/session", form, `token=${operatorToken}`);
    const cookie = opened.headers.get("Set-Cookie") ?? "";
    expect([opened.status, opened.headers.get("Location")]).toEqual([303, "/operator"]);
    expect(cookie).toMatch(/^operator=[\w-]{43}\.[\w%]{43,90}; Max-Age=3600; Path=\/; HttpOnly; SameSite=Strict$/);
    const Cookie = cookie.split(";")[0] ?? "";
    const { accountId, key } = await makeTenant();
    await call("POST", "/api/v1/tasks", { key, body: { title: "A secret plan" } });
    // More than any other test has.
    await env.ACTIVITY_0.prepare(
      "INSERT INTO usage_day_totals (account_id, start, key_id, by_status, histogram) VALUES (?, ?, '', ?, '{}')",
    )
      .bind(accountId, dayStart(Date.now()) - dayMs, '{"200":[900000,1,1],"429":[800000,0,0],"503":[700000,1,1]}')
      .run();
    await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: 1 });
    const shown = await (await page("GET", "/operator", { Cookie })).text();
    for (const text of ["The deployment", "Journal of the log", "Most requests", "Most storage", "Gone quiet"])
      expect(shown).toContain(text);
    expect(shown.split(accountId).length - 1).toBe(4);
    expect(shown).not.toContain("A secret plan");
    await env.DB.prepare("UPDATE operator_sessions SET expires_at = expires_at - 3600001").run();
    expect(await (await page("GET", "/operator", { Cookie })).text()).toContain("Operator token");
  });

  it("closes when its token is taken away, and when one signs out", async () => {
    const open = async () =>
      ((await page("POST", "/operator/session", form, `token=${operatorToken}`)).headers.get("Set-Cookie") ?? "").split(";")[0] ?? "";
    const first = await open();
    await env.DB.prepare("UPDATE operator_sessions SET operator_token_hash = 'gone'").run();
    expect(await (await page("GET", "/operator", { Cookie: first })).text()).toContain("Operator token");
    const second = await open();
    await page("POST", "/operator/sign-out", { ...form, Cookie: second }, "");
    expect(await (await page("GET", "/operator", { Cookie: second })).text()).toContain("Operator token");
  });
});
