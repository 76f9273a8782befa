import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { tablesOfAccounts } from "../../../src/db/registry/area-tables.ts";
import { dayMs, minuteMs } from "../../../src/lib/time/clock.ts";
import { AccountLogs } from "../../../src/log/writer/account-logs.ts";
import { call, cron, makeTenant } from "../support/client.ts";
import { entryOf, logDelay, write } from "../support/entries.ts";
import { readKeyRow, restoreKeyRow } from "../support/key-rows.ts";
import { countEntries } from "../support/log-rows.ts";
import { operate, operatorActionsOn, reconcileGuards } from "../support/operate.ts";
import { insertErasure } from "../support/operations-rows.ts";
import { makePerson } from "../support/people.ts";
import { deliveryWait, receivedAt, register } from "../support/receiver.ts";
import { readTables } from "../support/schema.ts";
import { tryKey } from "../support/try-key.ts";

const readAccountRow = (accountId: string) =>
  env.DB.prepare("SELECT * FROM accounts WHERE id = ?").bind(accountId).first<Record<string, unknown>>();

/** Adds the erased row of an account to D1 again, as a restore of D1 would do. */
const restoreAccountRow = (row: Record<string, unknown>) =>
  env.DB.prepare(`INSERT INTO accounts (${Object.keys(row).join()}) VALUES (${Object.keys(row).map(() => "?")})`)
    .bind(...Object.values(row))
    .run();

/** Finds all tables that contain `text` in any column. Returns a sorted list of their names. */
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

/** Returns the ids of the accounts that have something on the disk of the log writer. */
const readAccountsOnDisk = () => runInDurableObject(logWriter, (_, { storage }) => [...new AccountLogs(storage).accounts.keys()]);

/** Returns the stored state and the stored events of a key's guard. */
const readGuardStorage = (keyId: string) =>
  runInDurableObject(env.KEY_GUARD.getByName(keyId), (_, { storage }) => ({
    state: [...storage.kv.list()],
    events: storage.sql.exec("SELECT * FROM events").toArray(),
  }));

describe("An erasure", () => {
  it("deletes all data of the account from every table and object, except the account's id in the operator's records", async () => {
    const tenant = await makeTenant();
    const { accountId, key, keyId } = tenant;
    const otherTenant = await makeTenant();
    const owner = await makePerson(accountId);
    const webhook = await register(key);
    await operate("PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit: 500 }] });
    const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id }, "Idempotency-Key": "once" });
    await call("POST", `/api/v1/webhooks/${webhook.id}/redeliver`, { key, body: { from: new Date(0).toISOString() } });
    await call("GET", "/api/v1/usage", { key });
    await call("POST", "/api/v1/tasks", { key: otherTenant.key, body: { title: "stays" } });
    await vi.waitFor(async () => expect((await receivedAt(webhook.path)).length).toBeGreaterThanOrEqual(2), deliveryWait);
    // The test waits until all log entries are written. If an entry arrived later, the entry would be counted only in the second report.
    await vi.waitFor(async () => expect(await countEntries(accountId)).toBe(5), { ...logDelay, timeout: 8000 });

    const { status, body } = await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect([status, body.status]).toEqual([200, "erased"]);
    expect(body.erased).toMatchObject({ account: 1, keys: 1, tasks: 1, users: 1, members: 1, sessions: 1, webhooks: 1, responses: 1 });
    expect(Date.parse(body.time_travel_until) - Date.parse(body.finished_at)).toBe(30 * dayMs);
    expect(await tryKey(key)).toBe("invalid_key");
    expect((await owner.get("/keys")).status).toBe(303);
    // If a log entry arrives after the erasure, the log writer rejects the entry.
    await write([entryOf({ accountId, keyId }, Date.now())]);
    await cron(Date.now() + 11 * minuteMs);
    expect(await findTablesWith(accountId)).toEqual(["DB.erasures", "DB.operator_audit"]);
    for (const id of [keyId, webhook.id, user.body.id, owner.member.id]) expect(await findTablesWith(id)).toEqual([]);
    const onDisk = await readAccountsOnDisk();
    expect([onDisk.includes(accountId), onDisk.includes(otherTenant.accountId)]).toEqual([false, true]);
    const ofBudget = await runInDurableObject(env.ACCOUNT_BUDGET.getByName(accountId), (_, { storage }) => [...storage.kv.list()]);
    expect(ofBudget).toEqual([["erased", true]]);
    expect(await readGuardStorage(keyId)).toEqual({ state: [["erased", true]], events: [] });
    expect(await operatorActionsOn(accountId)).toEqual([
      "account.erased",
      "account.suspended",
      "account.erasure_requested",
      "account.changed",
    ]);
    expect(await tryKey(otherTenant.key)).toBe(200);
    expect((await call("GET", "/api/v1/tasks", { key: otherTenant.key })).body.data.length).toBe(1);
    // A repeated erasure returns the same report as before.
    const repeated = await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect(repeated.body).toEqual(body);
    expect((await operate("POST", `/accounts/${accountId}/resume`)).status).toBe(409);
  });

  it("covers every table that has rows of accounts, unless the manifest of the table excludes it", async () => {
    // The export of an account uses the same list of tables as the erasure.
    const known = new Map(tablesOfAccounts.map(({ name, facts }) => [name, facts]));
    for (const database of [env.DB, env.ACTIVITY_0]) {
      const withAccounts = (await readTables(database)).filter(({ sql }) => /\baccount_id\b/.test(sql));
      const names = withAccounts.map(({ name }) => name).filter((name) => name !== "account_storage");
      expect(names.length).toBeGreaterThanOrEqual(5);
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
