import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { tablesOfAccounts } from "../../../src/registry/area-tables.ts";
import { dayMs, dayStart, hourMs, minuteMs } from "../../../src/time/clock.ts";
import { encrypt } from "../../../src/webhooks/encryption.ts";
import { answerOf, call, cron, makeKey, makeTenant, origin } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { deleteKeyRow, readKeyRow, restoreKeyRow, updateKeyRow } from "../support/key-rows.ts";
import { countActivityRows } from "../support/log-rows.ts";
import { countOpenInvitations, readMemberIds } from "../support/member-rows.ts";
import { operate, operatorActionsOn, operatorToken } from "../support/operate.ts";
import { backdateOperatorSessions, insertErasure, replaceTokenOfOperatorSessions, setSuspendedAt } from "../support/operations-rows.ts";
import { formHeaders, makePerson, sessionTokenIn } from "../support/people.ts";
import { attemptDelivery, deliveriesOf, deliveryWait, receivedAt, register, verifyRequest, waitForRequest } from "../support/receiver.ts";
import { tryKey } from "../support/try-key.ts";
import { readDeliveryRows, readWebhookRow } from "../support/webhook-rows.ts";

/** Adds 1,000 expired copies of a key. The `expires_at` of the copies is 1. */
const insertExpiredKeys = (keyId: string) =>
  env.DB.prepare(
    `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at,
        version, pushed_version, revision, created_at, updated_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000)
      SELECT id || n, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, 1, 1, 1, revision, 1, 1
        FROM api_keys, counted WHERE id = ?`,
  )
    .bind(keyId)
    .run();

/** Makes a member the creator of all expired keys of an account except one. */
const setCreatorOfExpiredKeys = (accountId: string, memberId: string, exceptKeyId: string) =>
  env.DB.prepare("UPDATE api_keys SET created_by_type = 'member', created_by_id = ? WHERE account_id = ? AND expires_at = 1 AND id <> ?")
    .bind(memberId, accountId, exceptKeyId)
    .run();

/** Gives all expired keys of an account except one a new version that was not pushed to their guards. */
const markExpiredKeysUnpushed = (accountId: string, exceptKeyId: string) =>
  env.DB.prepare("UPDATE api_keys SET version = 2 WHERE account_id = ? AND expires_at = 1 AND id <> ?").bind(accountId, exceptKeyId).run();

const markExpiredKeysPushed = (accountId: string) =>
  env.DB.prepare("UPDATE api_keys SET pushed_version = version WHERE account_id = ? AND expires_at = 1").bind(accountId).run();

/** Counts the keys of an account that were changed after their creation. */
const countChangedKeys = (accountId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM api_keys WHERE account_id = ? AND version > 1").bind(accountId).first<number>("count");

/** Subscribes a webhook to all event types without an API call. */
const subscribeToAllEvents = (webhookId: string) =>
  env.DB.prepare("UPDATE webhooks SET event_types = '[\"*\"]' WHERE id = ?").bind(webhookId).run();

const readSealedSecret = async (webhookId: string) => String((await readWebhookRow(webhookId))?.sealed_secret);

const setSealedSecret = (webhookId: string, sealedSecret: string) =>
  env.DB.prepare("UPDATE webhooks SET sealed_secret = ? WHERE id = ?").bind(sealedSecret, webhookId).run();

/** Adds tasks with a description of 9,000 characters. */
async function insertLargeTasks(accountId: string, count: number) {
  const tasks = Array.from({ length: count }, (_, n) => [`tsk_${String(n).padStart(4, "0")}`, accountId, "x".repeat(9000)]);
  for (let from = 0; from < tasks.length; from += 100)
    await env.DB.prepare(
      `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, revision, created_at, updated_at)
        SELECT value ->> 0, value ->> 1, 'x', value ->> 2, '', 'todo', 'low', '[]', 'r', 1, 1 FROM json_each(?)`,
    )
      .bind(JSON.stringify(tasks.slice(from, from + 100)))
      .run();
}

/** Adds an entry to the log in D1, as if a batch from the log writer arrived late. */
const insertLogEntry = (accountId: string, keyId: string) =>
  env.ACTIVITY_0.prepare(
    `INSERT INTO activity (account_id, id, key_id, method, path, route, status, duration_ms, admitted, counted, count)
      VALUES (?, 'req_late', ?, 'GET', '/', '/', 200, 1, 1, 1, 1)`,
  )
    .bind(accountId, keyId)
    .run();

/** Inserts usage for yesterday, so that the account has more requests than any account of another test. */
const insertLargeUsage = (accountId: string) =>
  env.ACTIVITY_0.prepare("INSERT INTO usage_day_totals (account_id, start, key_id, by_status, histogram) VALUES (?, ?, '', ?, '{}')")
    .bind(accountId, dayStart(Date.now()) - dayMs, '{"200":[900000,1,1],"429":[800000,0,0],"503":[700000,1,1]}')
    .run();

const readAccountRow = (accountId: string) =>
  env.DB.prepare("SELECT * FROM accounts WHERE id = ?").bind(accountId).first<Record<string, unknown>>();

/** Adds the row of an account to D1, as a restore of D1 would. */
const restoreAccountRow = (row: Record<string, unknown>) =>
  env.DB.prepare(`INSERT INTO accounts (${Object.keys(row).join()}) VALUES (${Object.keys(row).map(() => "?")})`)
    .bind(...Object.values(row))
    .run();

/** Returns the tables of a database, without internal tables. */
const readTables = async (database: D1Database) => {
  const { results } = await database
    .prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    .all<{ name: string; sql: string }>();
  return results.filter(({ name }) => !/^(sqlite|d1|_cf)_/.test(name));
};

/** Returns the names of all tables that contain a text in any column, sorted. */
async function findTablesWith(text: string): Promise<string[]> {
  const found: string[] = [];
  for (const [binding, database] of [
    ["DB", env.DB],
    ["ACTIVITY_0", env.ACTIVITY_0],
  ] as const)
    for (const { name: table } of await readTables(database)) {
      const { results: columns } = await database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all<{ name: string }>();
      const matches = columns.map((column) => `instr(${column.name}, ?1) > 0`).join(" OR ");
      const count = await database.prepare(`SELECT count(*) AS count FROM ${table} WHERE ${matches}`).bind(text).first<number>("count");
      if (count) found.push(`${binding}.${table}`);
    }
  return found.toSorted();
}

const logWriter = env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0");

/** Adds a batch with one entry per account to the journal of the log writer. */
const insertJournalBatch = (accountIds: readonly string[]) =>
  runInDurableObject(logWriter, (_, { storage }) => {
    const entries = accountIds.map((accountId) => ({ accountId }));
    storage.sql.exec("INSERT INTO batches (entries, count) VALUES (?, ?)", JSON.stringify(entries), entries.length);
  });

/** Returns the entries in the journal of the log writer as JSON, and deletes the journal. */
const takeJournal = () =>
  runInDurableObject(logWriter, (_, { storage }) => {
    const rows = storage.sql.exec<{ entries: string }>("SELECT entries FROM batches").toArray();
    storage.sql.exec("DELETE FROM batches");
    return rows.map(({ entries }) => entries).join();
  });

/** Returns the stored state and the stored events of a key's guard. */
const readGuardStorage = (keyId: string) =>
  runInDurableObject(env.KEY_GUARD.getByName(keyId), (_, { storage }) => ({
    state: [...storage.kv.list()],
    events: storage.sql.exec("SELECT * FROM events").toArray(),
  }));

/**
 * Reconciles the guards of an account. Reconciles only the parts that contain the given keys, because a full reconciliation would include
 * the keys of all other tests.
 */
async function reconcileGuards(accountId: string, ...keyIds: string[]) {
  const result = { reconciled: [] as string[], revoked: [] as string[] };
  for (const after of [...keyIds.map((id) => `rows:${id.slice(0, -1)}`), `audit:${accountId}/`]) {
    const { status, body } = await operate("POST", "/guards/line-up", { after });
    expect([status, body.unreachable]).toEqual([200, []]);
    result.reconciled.push(...body.reconciled);
    result.revoked.push(...body.revoked);
  }
  return result;
}

/** Exports an account, part by part. Returns the exported objects. */
async function exportAccount(accountId: string): Promise<Record<string, unknown>[]> {
  const objects: Record<string, unknown>[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const { text, headers } = await operate("GET", `/accounts/${accountId}/export${next && `?after=${next}`}`);
    const lines = text.trim().split("\n").filter(Boolean);
    objects.push(...lines.map((line) => JSON.parse(line)));
    next = headers.get("X-Next");
  }
  return objects;
}

describe("The operator API", () => {
  it.each([
    ["no token", "198.18.0.1", undefined],
    ["an unknown token", "198.18.0.2", "Bearer dvop_another"],
    ["the hash of the token", "198.18.0.3", "Bearer 0000"],
    ["an API key", "198.18.0.4", "Bearer dvo_0000000000000000_0000000000000000000000000000000000000000"],
    ["the token in another authentication scheme", "198.18.0.5", `Basic ${operatorToken}`],
  ])("returns 401 for a request with %s", async (_, ip, authorization) => {
    // Each case has its own IP address, because an address may send only ten wrong tokens a minute.
    const headers = { "CF-Connecting-IP": ip, ...(authorization !== undefined && { Authorization: authorization }) };
    for (const [method, path] of [
      ["GET", "/operator/api/accounts"],
      ["POST", "/operator/api/guards/line-up"],
      ["GET", "/operator/api/none"],
      ["GET", "/operator/api"],
      ["GET", "/metrics"],
    ] as const) {
      const answer = await answerOf(await exports.default.fetch(new Request(origin + path, { method, headers })));
      expect([path, answer.status, answer.body.code]).toEqual([path, 401, "invalid_token"]);
      expect(answer.headers.get("WWW-Authenticate")).toBe('Bearer realm="operator"');
      expect(answer.headers.get("Cache-Control")).toBe("no-store");
    }
  });

  it("ignores a token in the URL", async () => {
    const path = `/operator/api/accounts?token=${operatorToken}&access_token=${operatorToken}`;
    expect((await exports.default.fetch(new Request(origin + path))).status).toBe(401);
  });

  it("creates an account with a setup link, and records the action", async () => {
    const { status, body } = await operate("POST", "/accounts", { name: "Acme", email: "ops@acme.dev" });
    expect([status, body.name, body.status]).toEqual([201, "Acme", "active"]);
    expect(body.setup_url).toMatch(/^https:\/\/overview\.acme\.dev\/setup#[\w-]{43}$/);
    expect(await operatorActionsOn(body.id)).toEqual(["account.made"]);
    const { body: accounts } = await operate("GET", "/accounts");
    expect(accounts.data.length).toBeGreaterThan(0);
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
  ])("rejects %s %s %j with status %i", async (method, path, body, status) => {
    const answer = await operate(method, path, body);
    expect([answer.status, answer.headers.get("Content-Type")]).toEqual([status, "application/problem+json"]);
  });

  it("creates, disables, enables, limits and revokes keys, each with immediate effect", async () => {
    const { accountId } = await makeTenant();
    const { status, body } = await operate("POST", `/accounts/${accountId}/keys`, { name: "CI", scopes: ["tasks:read"], hourly_limit: 7 });
    expect([status, await tryKey(body.secret_key)]).toEqual([201, 200]);
    await operate("POST", `/keys/${body.id}/disable`);
    expect(await tryKey(body.secret_key)).toBe("disabled_key");
    await operate("POST", `/keys/${body.id}/enable`);
    expect(await tryKey(body.secret_key)).toBe(200);
    await operate("PUT", `/keys/${body.id}/limit`, { limit: 9 });
    expect((await call("GET", "/api/v1/me", { key: body.secret_key })).headers.get("X-RateLimit-Limit")).toBe("9");
    await operate("POST", `/keys/${body.id}/revoke`);
    expect(await tryKey(body.secret_key)).toBe("revoked_key");
    expect(await operatorActionsOn(accountId)).toEqual(["key.revoked", "key.limited", "key.enabled", "key.disabled", "key.made"]);
    const { body: keys } = await operate("GET", `/accounts/${accountId}/keys`);
    expect(keys.data[0]).toMatchObject({ id: body.id, status: "revoked", hourly_limit: 9 });
    expect(JSON.stringify(keys)).not.toContain(body.secret_key.slice(-20));
  });

  it("lowers the limits of keys to a new ceiling, and rejects limits above the ceiling", async () => {
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

  it("shows the storage of an account, and sets its storage quota and its log retention", async () => {
    const { accountId, key } = await makeTenant();
    const createTask = () => call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const readAccount = async () => (await operate("GET", `/accounts/${accountId}`)).body;
    await createTask();
    const { body } = await operate("GET", `/accounts/${accountId}/storage`);
    expect(body.tasks).toEqual({ stored: 1, most: 100_000 });
    expect([body.bytes.most, body.bytes.stored > 1000, body.dropped_events]).toEqual([256 * 1024 * 1024, true, 0]);
    expect((await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: 1000 })).body).toEqual({ storage_quota_bytes: 1000 });
    expect((await operate("GET", `/accounts/${accountId}/storage`)).body.bytes).toEqual({ stored: expect.any(Number), most: 1000 });
    expect((await createTask()).body.code).toBe("limit_reached");
    await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: null });
    expect((await readAccount()).storage_quota_bytes).toBe(256 * 1024 * 1024);
    expect((await createTask()).status).toBe(201);
    await operate("PUT", `/accounts/${accountId}/keep-days`, { days: 7 });
    expect((await readAccount()).keep_days).toBe(7);
    await operate("PUT", `/accounts/${accountId}/keep-days`, { days: null });
    expect((await readAccount()).keep_days).toBeNull();
  });

  it("creates a setup link for an account that has lost its owners, and invalidates the previous setup link", async () => {
    const { accountId } = await makeTenant();
    await makePerson(accountId);
    const first = await operate("POST", `/accounts/${accountId}/owners`);
    const second = await operate("POST", `/accounts/${accountId}/owners`);
    expect(first.body.setup_url).not.toBe(second.body.setup_url);
    expect(await countOpenInvitations(accountId)).toBe(1);
  });
});

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
    // A direct attempt returns only after its request to the receiver has ended. If there was no request by then, there is none.
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

describe("An expired key", () => {
  it("is skipped by a removal, a suspension and a lower ceiling, and gets a later expiry only within the ceiling", async () => {
    const { accountId, keyId } = await makeTenant();
    const { keyId: expiredKeyId, key: expiredKey } = await makeKey(accountId);
    await updateKeyRow(expiredKeyId, { expires_at: 1 });
    await insertExpiredKeys(keyId);
    const owner = await makePerson(accountId);
    const creator = await makePerson(accountId, "admin");
    await setCreatorOfExpiredKeys(accountId, creator.member.id, expiredKeyId);
    expect((await owner.post(`/settings/members/${creator.member.id}/remove`, { listed: "yes" })).status).toBe(303);
    expect(await countChangedKeys(accountId)).toBe(0);
    // When an account is suspended, the changes of unpushed keys are pushed to their guards one by one. A suspension must skip expired
    // keys.
    await markExpiredKeysUnpushed(accountId, expiredKeyId);
    expect((await operate("POST", `/accounts/${accountId}/suspend`)).body.keys).toBe(1);
    expect((await operate("POST", `/accounts/${accountId}/resume`)).body.keys).toBe(1);
    await markExpiredKeysPushed(accountId);
    expect((await operate("PUT", `/accounts/${accountId}/ceiling`, { limit: 100 })).body.lowered).toEqual([keyId]);
    const setLaterExpiry = (fields: Record<string, string>) =>
      owner.post(`/keys/${expiredKeyId}`, { expires_at: new Date(Date.now() + dayMs).toISOString().slice(0, 16), ...fields });
    const denied = await setLaterExpiry({});
    expect([denied.status, denied.text.includes("Must be at most 100")]).toEqual([422, true]);
    expect((await setLaterExpiry({ hourly_limit: "100" })).status).toBe(303);
    const { status, headers } = await call("GET", "/api/v1/me", { key: expiredKey });
    expect([status, headers.get("X-RateLimit-Limit")]).toEqual([200, "100"]);
  });
});

describe("The reconciliation of guards", () => {
  it("continues with key rows, then with the audit log, then with the usage in each activity database", async () => {
    const positions: string[] = [];
    for (const after of ["rows:key_zzzzzzzzzzzzzzzz", "audit:acc_z/", "uses-ACTIVITY_0:acc_z/", "uses-ACTIVITY_1:acc_z/"])
      positions.push((await operate("POST", "/guards/line-up", { after })).body.next);
    expect(positions).toEqual(["audit:", "uses-ACTIVITY_0:", "uses-ACTIVITY_1:", null]);
  });

  it("updates key rows that are older than their guards, and revokes guards without a key row", async () => {
    const { accountId, key } = await makeTenant();
    const [revoked, lost] = [await makeKey(accountId), await makeKey(accountId)];
    const { version = 0, pushed_version = 0, revision = "" } = await readKeyRow(revoked.keyId);
    expect([await tryKey(revoked.key), await tryKey(lost.key)]).toEqual([200, 200]);
    await call("DELETE", `/api/v1/keys/${revoked.keyId}`, { key });
    // D1 is restored to a time before the revocation of the first key and before the creation of the second key.
    await updateKeyRow(revoked.keyId, { state: "active", version, pushed_version, revision });
    await deleteKeyRow(lost.keyId);
    expect(await tryKey(lost.key)).toBe(200);
    const result = await reconcileGuards(accountId, revoked.keyId);
    expect(result.reconciled).toContain(revoked.keyId);
    expect(result.revoked).toContain(lost.keyId);
    expect([await tryKey(revoked.key), await tryKey(lost.key), await tryKey(key)]).toEqual(["revoked_key", "revoked_key", 200]);
    expect((await readKeyRow(revoked.keyId)).state).toBe("revoked");
  });
});

describe("The secrets of the Worker", () => {
  it("are listed with the number of their uses, and webhook secrets can be encrypted again with the newest secret", async () => {
    const { key } = await makeTenant();
    const webhook = await register(key, { event_types: ["task.created"] });
    expect((await readSealedSecret(webhook.id)).startsWith("b.")).toBe(true);
    const olderSecret = { name: "a", secret: "sealing-secret-of-the-tests".padEnd(40, "-") };
    await setSealedSecret(webhook.id, await encrypt(webhook.secret, webhook.id, [olderSecret]));
    const readSecrets = async () => (await operate("GET", "/secrets")).body;
    const isNamed = (wanted: string) => (secret: { name: string }) => secret.name === wanted;
    const before = await readSecrets();
    expect(before.signing.find(isNamed("b"))).toMatchObject({ isNewest: true, isThere: true });
    expect(before.sealing.find(isNamed("a")).used).toBeGreaterThan(0);
    for (let hasMore = true; hasMore; ) hasMore = (await operate("POST", "/secrets/reseal")).body.has_more;
    expect((await readSealedSecret(webhook.id)).startsWith("b.")).toBe(true);
    const after = await readSecrets();
    expect(after.sealing.find(isNamed("a")).used).toBe(0);
    await call("POST", "/api/v1/tasks", { key, body: { title: "encrypted again" } });
    expect(verifyRequest(webhook.secret, await waitForRequest(webhook.path))).toMatchObject({ type: "task.created" });
  });
});

describe("An export", () => {
  it("contains all data of the account, as one JSON object per line, and no secrets", async () => {
    const { accountId, key } = await makeTenant();
    const owner = await makePerson(accountId);
    const webhook = await register(key);
    const { headers } = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    await call("PATCH", headers.get("Location") ?? "", { key, body: { name: "Ada L." } });
    for (let n = 0; n < 3; n++) await call("POST", "/api/v1/tasks", { key, body: { title: `Task ${n}`, labels: ["x"] } });
    await vi.waitFor(async () => expect((await receivedAt(webhook.path)).length).toBeGreaterThanOrEqual(4), deliveryWait);
    await vi.waitFor(async () => {
      const { body } = await call("GET", "/api/v1/activity", { key });
      expect(body.data.length).toBeGreaterThanOrEqual(5);
    }, logDelay);
    for (const after of ['["task",[1,2,3]]', '["task",[{}]]', '["none",[]]', "x"])
      expect((await operate("GET", `/accounts/${accountId}/export?after=${encodeURIComponent(after)}`)).status).toBe(400);
    const objects = await exportAccount(accountId);
    const byType = Map.groupBy(objects, ({ type }) => type);
    expect(byType.get("task")?.length).toBe(3);
    const previous = byType.get("event")?.flatMap(({ data }) => (data as { previous: unknown }).previous ?? []);
    expect(previous).toMatchObject([{ name: "Ada" }]);
    expect(byType.get("task")?.[0]?.data).toMatchObject({ labels: ["x"], created_at: expect.stringMatching(/Z$/) });
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
      expect([type, (byType.get(type)?.length ?? 0) > 0]).toEqual([type, true]);
    const text = JSON.stringify(objects);
    for (const secret of [key, key.slice(-40), webhook.secret, sessionTokenIn(owner.cookie), "sealed", "_hash"])
      expect([secret, text.includes(secret)]).toEqual([secret, false]);
  });

  it("of a large account has parts of a limited size, which neither skip nor repeat rows", async () => {
    const { accountId } = await makeTenant();
    await insertLargeTasks(accountId, 401);
    const first = await operate("GET", `/accounts/${accountId}/export`);
    expect([first.text.length < 4_500_000, first.headers.get("X-Next")]).toEqual([true, expect.any(String)]);
    const ids = (await exportAccount(accountId)).filter(({ type }) => type === "task").map(({ data }) => (data as { id: string }).id);
    expect([ids.length, new Set(ids).size]).toEqual([401, 401]);
  });
});

describe("An operator call that continues earlier work", () => {
  it("is recorded in the operator's audit log", async () => {
    const { accountId } = await makeTenant();
    const { body: before } = await operate("GET", "/audit");
    expect((await operate("GET", `/accounts/${accountId}/export?after=${encodeURIComponent('["account",[]]')}`)).status).toBe(200);
    expect((await operate("POST", "/guards/line-up", { after: "audit:" })).status).toBe(200);
    expect((await operate("POST", "/deliveries/drain", { after: "whk_1" })).status).toBe(200);
    const { body } = await operate("GET", "/audit");
    const idsBefore = before.data.map(({ id }: { id: string }) => id);
    const added = body.data.filter(({ id }: { id: string }) => !idsBefore.includes(id)).toReversed();
    const continued = { operator: "tests", details: { continued: true } };
    expect(added).toEqual([
      expect.objectContaining({ ...continued, action: "account.exported", account_id: accountId }),
      expect.objectContaining({ ...continued, action: "guards.lined_up" }),
      expect.objectContaining({ ...continued, action: "deliveries.drained" }),
    ]);
  });
});

describe("An erasure", () => {
  it("deletes all data of the account from every table and object, except the account's id in the operator's records", async () => {
    const tenant = await makeTenant();
    const { accountId, key, keyId } = tenant;
    const otherTenant = await makeTenant();
    const owner = await makePerson(accountId);
    const webhook = await register(key);
    const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id }, "Idempotency-Key": "once" });
    await call("POST", `/api/v1/webhooks/${webhook.id}/redeliver`, { key, body: { from: new Date(0).toISOString() } });
    await call("GET", "/api/v1/usage", { key });
    await call("POST", "/api/v1/tasks", { key: otherTenant.key, body: { title: "stays" } });
    await vi.waitFor(async () => expect((await receivedAt(webhook.path)).length).toBeGreaterThanOrEqual(2), deliveryWait);
    // The test waits for all log entries, because a later entry would appear only in the second report.
    await vi.waitFor(async () => expect(await countActivityRows(accountId)).toBe(5), { ...logDelay, timeout: 8000 });
    await insertJournalBatch([accountId, otherTenant.accountId]);

    const { status, body } = await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect([status, body.status]).toEqual([200, "erased"]);
    expect(body.erased).toMatchObject({ account: 1, keys: 1, tasks: 1, users: 1, members: 1, sessions: 1, webhooks: 1, responses: 1 });
    expect(Date.parse(body.time_travel_until) - Date.parse(body.finished_at)).toBe(30 * dayMs);
    expect(await tryKey(key)).toBe("invalid_key");
    expect((await owner.get("/keys")).status).toBe(303);
    // If a log entry arrives after the erasure, the cron job deletes the entry.
    await insertLogEntry(accountId, keyId);
    await cron(Date.now() + 11 * minuteMs);
    expect(await findTablesWith(accountId)).toEqual(["DB.erasures", "DB.operator_audit"]);
    for (const id of [keyId, webhook.id, user.body.id, owner.member.id]) expect(await findTablesWith(id)).toEqual([]);
    const journal = await takeJournal();
    expect([journal.includes(accountId), journal.includes(otherTenant.accountId)]).toEqual([false, true]);
    expect(await readGuardStorage(keyId)).toEqual({ state: [["erased", true]], events: [] });
    expect(await operatorActionsOn(accountId)).toEqual(["account.erased", "account.suspended", "account.erasure_requested"]);
    expect(await tryKey(otherTenant.key)).toBe(200);
    expect((await call("GET", "/api/v1/tasks", { key: otherTenant.key })).body.data.length).toBe(1);
    // A repeated erasure returns the same report, and counts the late log entry.
    const repeated = await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect(repeated.body).toEqual({ ...body, erased: { ...body.erased, requests: body.erased.requests + 1 } });
    expect((await operate("POST", `/accounts/${accountId}/resume`)).status).toBe(409);
  });

  it("covers every table that has rows of accounts, unless the manifest of the table excludes it", async () => {
    // An export uses the same list of tables.
    const known = new Map(tablesOfAccounts.map(({ name, facts }) => [name, facts]));
    for (const database of [env.DB, env.ACTIVITY_0]) {
      const withAccounts = (await readTables(database)).filter(({ sql }) => /\baccount_id\b/.test(sql));
      const names = withAccounts.map(({ name }) => name).filter((name) => name !== "account_storage");
      expect(names.length).toBeGreaterThan(5);
      expect(names.filter((name) => !known.has(name))).toEqual([]);
    }
    const kept = [...known].filter(([, { erasure }]) => erasure === "kept").map(([name]) => name);
    expect(kept.toSorted()).toEqual(["erasures", "operator_audit"]);
  });

  it("that was interrupted prevents new keys and setup links, and suspends the account when it is repeated", async () => {
    const { accountId, key } = await makeTenant();
    await insertErasure(accountId, Date.now());
    expect((await operate("POST", `/accounts/${accountId}/keys`, { name: "Late" })).status).toBe(409);
    expect((await operate("POST", `/accounts/${accountId}/owners`)).status).toBe(409);
    expect(await tryKey(key)).toBe(200);
    await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect(await operatorActionsOn(accountId)).toEqual(["account.erased", "account.suspended"]);
  });

  it("that was interrupted is finished by the cron job", async () => {
    const { accountId, key } = await makeTenant();
    await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    await insertErasure(accountId, Date.now() - 2 * minuteMs);
    await cron();
    expect((await operate("GET", `/accounts/${accountId}/erasure`)).body.status).toBe("erased");
    expect((await operate("GET", `/accounts/${accountId}`)).status).toBe(404);
  });

  it("stays effective after D1 is restored: the guard rejects the key, and a reconciliation revokes the restored row", async () => {
    const { accountId, key, keyId } = await makeTenant();
    expect(await tryKey(key)).toBe(200);
    const [accountRow, keyRow] = [await readAccountRow(accountId), await readKeyRow(keyId)];
    await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    await restoreAccountRow(accountRow ?? {});
    await restoreKeyRow(keyRow);
    expect(await tryKey(key)).toBe("invalid_key");
    await reconcileGuards(accountId, keyId);
    expect(await tryKey(key)).toBe("invalid_key");
    expect((await readKeyRow(keyId)).state).toBe("revoked");
  });
});

describe("Metrics", () => {
  it("are in OpenMetrics format, and describe the deployment but no account", async () => {
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

describe("The operator page", () => {
  const send = (method: string, path: string, headers: Record<string, string> = {}, body?: string) =>
    exports.default.fetch(new Request(origin + path, { method, headers, redirect: "manual", ...(body !== undefined && { body }) }));
  const readPage = async (headers: Record<string, string>) => (await send("GET", "/operator", headers)).text();
  const signIn = () => send("POST", "/operator/session", formHeaders, `token=${operatorToken}`);
  const cookieOf = (response: Response) => (response.headers.get("Set-Cookie") ?? "").split(";")[0] ?? "";

  it("asks for a token, accepts the token only from its own form, and stays open for one hour", async () => {
    expect(await (await send("GET", `/operator?token=${operatorToken}`)).text()).toContain("Operator token");
    const wrongToken = await send("POST", "/operator/session", formHeaders, "token=dvop_wrong");
    expect([wrongToken.status, wrongToken.headers.get("Set-Cookie")]).toEqual([403, null]);
    const multipart = await send("POST", "/operator/session", { Origin: origin, "Content-Type": "multipart/form-data" }, "x");
    expect(multipart.status).toBe(415);
    const otherSite = { ...formHeaders, Origin: "https://evil.example" };
    expect((await send("POST", "/operator/session", otherSite, `token=${operatorToken}`)).status).toBe(403);
    const signedIn = await signIn();
    expect([signedIn.status, signedIn.headers.get("Location")]).toEqual([303, "/operator"]);
    expect(signedIn.headers.get("Set-Cookie")).toMatch(
      /^operator=[\w-]{43}\.[\w%]{43,90}; Max-Age=3600; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    const { accountId, key } = await makeTenant();
    await call("POST", "/api/v1/tasks", { key, body: { title: "A secret plan" } });
    await insertLargeUsage(accountId);
    await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: 1 });
    const page = await readPage({ Cookie: cookieOf(signedIn) });
    for (const text of ["The deployment", "Journal of the log", "Most requests", "Most storage", "Gone quiet"])
      expect(page).toContain(text);
    expect(page.split(accountId).length - 1).toBe(4);
    expect(page).not.toContain("A secret plan");
    await backdateOperatorSessions(hourMs + 1);
    expect(await readPage({ Cookie: cookieOf(signedIn) })).toContain("Operator token");
  });

  it("closes after its token is removed from the configuration, and after a sign-out", async () => {
    const first = cookieOf(await signIn());
    await replaceTokenOfOperatorSessions();
    expect(await readPage({ Cookie: first })).toContain("Operator token");
    const second = cookieOf(await signIn());
    await send("POST", "/operator/sign-out", { ...formHeaders, Cookie: second }, "");
    expect(await readPage({ Cookie: second })).toContain("Operator token");
  });
});
