import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { describe, expect, it } from "vitest";
import { changeKey } from "../../../src/keys/change-key.ts";
import { minuteMs } from "../../../src/lib/time/clock.ts";
import { finishEndings, removeWithKeys } from "../../../src/lifecycle/removal.ts";
import { logOf } from "../../../src/log/writers.ts";
import { commitTo } from "../../../src/outbox/outbox.ts";
import { activity, call, cron, db, makeKey, makeTenant } from "../support/client.ts";
import { d1With } from "../support/d1.ts";
import { readKeyRow, updateKeyRow } from "../support/key-rows.ts";
import { markMemberRemoved, readRemovalTime, setMemberRole } from "../support/member-rows.ts";
import { countAllEndings, countEndings, insertEnding } from "../support/operations-rows.ts";
import { noOrigin } from "../support/people.ts";
import {
  createKeyAs,
  isAccepted,
  keyIdOf,
  keyIdsIn,
  makeAdminWithKey,
  makeTeam,
  removalFormIn,
  removalPathOf,
  removeMember,
} from "../support/removals.ts";

// The D1 batch that removes a member also records which keys and webhooks must end. The request then ends these keys and webhooks. If the
// request is interrupted, the cron job ends the remaining keys and webhooks. `leaver` is the member who is removed.

/** Returns bindings with a D1 that fails after the member has been removed. */
function failingAfterRemovalOf(memberId: string): Env {
  let isRemoved = false;
  const batch: D1Database["batch"] = async (statements) => {
    if (isRemoved) throw new Error("D1_ERROR: Network connection lost");
    const results = await env.DB.batch(statements);
    isRemoved = (await readRemovalTime(memberId)) !== null;
    return results as never;
  };
  return { ...env, DB: d1With(env.DB, { batch }) };
}

/** Returns a database client that rejects deletions from the table `endings`. The client still accepts such deletions in batches. */
function databaseWithoutDeletionOfEndings(): typeof db {
  const prepare = (query: string) => {
    const statement = env.DB.prepare(query);
    if (!query.startsWith('delete from "endings"')) return statement;
    return {
      bind: (...values: unknown[]) => Object.assign(statement.bind(...values), { run: () => Promise.reject(new Error("interrupted")) }),
    };
  };
  return drizzle(d1With(env.DB, { prepare })) as typeof db;
}

/** Returns the types of the events about a key or webhook, oldest first. Omits the event `key.created`. */
const readEventTypes = async (accountId: string, id: string) =>
  (
    await env.DB.prepare("SELECT type FROM events WHERE account_id = ? AND data ->> 'id' = ? AND type <> 'key.created' ORDER BY sequence")
      .bind(accountId, id)
      .all<{ type: string }>()
  ).results.map(({ type }) => type);

/** Calls `work`. During this call, D1 rejects all changes to keys with the name `name`. */
async function whileKeyChangesFail(name: string, work: () => Promise<void>) {
  await env.DB.prepare(
    `CREATE TRIGGER failing BEFORE UPDATE ON api_keys WHEN OLD.name = '${name}' BEGIN SELECT RAISE(ABORT, 'a failure of the test'); END`,
  ).run();
  try {
    await work();
  } finally {
    await env.DB.prepare("DROP TRIGGER failing").run();
  }
}

describe("A removal of a member", () => {
  it("that is interrupted is finished by the cron job, with an event and an audit log entry for each key and webhook", async () => {
    const { accountId, key, owner, leaver } = await makeAdminWithKey();
    const selected = await createKeyAs(leaver, "Selected");
    const changed = await createKeyAs(leaver, "Changed");
    const kept = await createKeyAs(leaver, "Kept");
    const webhook = (
      await call("POST", "/api/v1/webhooks", { key, body: { url: "https://hooks.acme.dev/theirs", event_types: ["task.created"] } })
    ).body;
    const form = { ...removalFormIn(await owner.get(removalPathOf(leaver))), revoke: [keyIdOf(selected)] };
    await call("PATCH", `/api/v1/keys/${keyIdOf(changed)}`, { key, body: { name: "Another name" } });
    const late = await createKeyAs(leaver, "Late");
    await leaver.post(`/webhooks/${webhook.id}`, { url: "https://hooks.acme.dev/moved", event_types: "task.created" });
    const interrupted = await owner.post(removalPathOf(leaver), form, {}, failingAfterRemovalOf(leaver.member.id));
    expect([interrupted.status, interrupted.text.includes("the rest follows within minutes")]).toEqual([422, true]);
    expect([(await leaver.get("/")).status, await countEndings(accountId)]).toEqual([303, 4]);
    await cron(Date.now() + 2 * minuteMs);
    expect(await countEndings(accountId)).toBe(0);
    expect(await Promise.all([selected, late, changed, kept].map(isAccepted))).toEqual([false, false, false, true]);
    expect(await readEventTypes(accountId, keyIdOf(selected))).toEqual(["key.revoked"]);
    expect(await readEventTypes(accountId, keyIdOf(late))).toEqual(["key.revoked"]);
    expect(await readEventTypes(accountId, keyIdOf(changed))).toEqual(["key.updated", "key.updated"]);
    expect(await readEventTypes(accountId, webhook.id)).toEqual(["webhook.disabled"]);
    expect((await call("GET", `/api/v1/webhooks/${webhook.id}`, { key })).body.status).toBe("disabled");
    for (const [action, count] of [
      ["key.revoked", 2],
      ["key.disabled", 1],
      ["webhook.disabled", 1],
    ] as const) {
      const { data } = (await call("GET", `/api/v1/audit?action=${action}`, { key })).body;
      expect([action, data.length, data[0].actor.id]).toEqual([action, count, owner.member.id]);
    }
  });

  it("that is denied ends no key or webhook, neither at once nor later", async () => {
    const { accountId, owner, leaver, firstKey } = await makeTeam();
    await leaver.post("/webhooks", { url: "https://hooks.acme.dev/theirs", event_types: "task.created" });
    await setMemberRole(leaver.member.id, "admin");
    const actor = { accountId, by: { type: "member" as const, id: owner.member.id }, from: noOrigin };
    const writing = { db, now: Date.now(), actor, commit: commitTo({ db }) };
    const emptyChoice = { shownKeys: [], revoked: [], shownWebhooks: [] };
    await expect(removeWithKeys(writing, leaver.member, emptyChoice)).rejects.toThrow("is admin now");
    expect([await countEndings(accountId), await isAccepted(firstKey)]).toEqual([0, true]);
  });

  it("sends no event about a key that was already disabled, and no second event if its form is sent again", async () => {
    const { accountId, key, owner, leaver, firstKey, secondKey } = await makeTeam();
    await call("PATCH", `/api/v1/keys/${keyIdOf(secondKey)}`, { key, body: { status: "disabled" } });
    const form = removalFormIn(await owner.get(removalPathOf(leaver)));
    await call("PATCH", `/api/v1/keys/${keyIdOf(secondKey)}`, { key, body: { name: "Another name" } });
    await call("PATCH", `/api/v1/keys/${keyIdOf(firstKey)}`, { key, body: { name: "Another name" } });
    for (let count = 0; count < 3; count++) expect((await owner.post(removalPathOf(leaver), form)).status).toBe(303);
    expect(await readEventTypes(accountId, keyIdOf(secondKey))).toEqual(["key.updated", "key.updated"]);
    expect(await readEventTypes(accountId, keyIdOf(firstKey))).toEqual(["key.updated", "key.updated"]);
    expect((await call("GET", `/api/v1/audit?action=key.disabled&target=${keyIdOf(firstKey)}`, { key })).body.data).toHaveLength(1);
  });

  it("sends one event about a disabled key, even if several callers finish it at once and one is interrupted", async () => {
    const { accountId, key, owner, leaver, firstKey } = await makeTeam();
    const form = removalFormIn(await owner.get(removalPathOf(leaver)));
    await call("PATCH", `/api/v1/keys/${keyIdOf(firstKey)}`, { key, body: { name: "Another name" } });
    await owner.post(removalPathOf(leaver), form, {}, failingAfterRemovalOf(leaver.member.id));
    const finishing = { db, guards: env.KEY_GUARD, logOf: (logWriter: string) => logOf(env, logWriter) };
    await finishEndings({ ...finishing, db: databaseWithoutDeletionOfEndings() }, accountId, Date.now());
    await Promise.all([1, 2, 3].map(() => finishEndings(finishing, accountId, Date.now())));
    expect([await readEventTypes(accountId, keyIdOf(firstKey)), await countEndings(accountId)]).toEqual([
      ["key.updated", "key.updated"],
      0,
    ]);
  });

  it("revokes a key that was selected, even if an older form that keeps the key is sent later", async () => {
    const { owner, leaver, firstKey, secondKey } = await makeTeam();
    const olderForm = removalFormIn(await owner.get(removalPathOf(leaver)));
    const form = { ...olderForm, revoke: [keyIdOf(firstKey)] };
    await owner.post(removalPathOf(leaver), form, {}, failingAfterRemovalOf(leaver.member.id));
    await updateKeyRow(keyIdOf(firstKey), { state: "active", revision: "changed" });
    await owner.post(removalPathOf(leaver), olderForm);
    expect((await readKeyRow(keyIdOf(firstKey))).state).toBe("revoked");
    expect(await isAccepted(secondKey)).toBe(true);
  });

  it("shows a webhook to which the member gave a new URL and which the same change disabled", async () => {
    const { key, owner, leaver } = await makeAdminWithKey();
    const body = { url: "https://hooks.acme.dev/first", event_types: ["task.created"] };
    const { id } = (await call("POST", "/api/v1/webhooks", { key, body })).body;
    const keyOfLeaver = await createKeyAs(leaver, "Theirs", ["webhooks:read", "webhooks:write", "tasks:read"]);
    const change = { url: "https://hooks.acme.dev/moved", status: "disabled" };
    expect((await call("PATCH", `/api/v1/webhooks/${id}`, { key: keyOfLeaver, body: change })).status).toBe(200);
    expect((await owner.get(removalPathOf(leaver))).text).toContain(`/webhooks/${id}`);
  });
});

describe("A key of a removed member", () => {
  it("is revoked if it was selected, even if it expired while the page was open", async () => {
    const { key, owner, leaver, firstKey } = await makeTeam();
    await removeMember(owner, leaver);
    const page = await owner.get(removalPathOf(leaver));
    expect(keyIdsIn(page)).toContain(keyIdOf(firstKey));
    await updateKeyRow(keyIdOf(firstKey), { expires_at: Date.now() - 1 });
    await owner.post(removalPathOf(leaver), { ...removalFormIn(page), revoke: [keyIdOf(firstKey)] });
    expect((await call("GET", `/api/v1/keys/${keyIdOf(firstKey)}`, { key })).body.status).toBe("revoked");
  });

  it("cannot get a later expiry if the member is removed during the change and the key expires at that moment", async () => {
    const { accountId, owner, leaver, firstKey } = await makeTeam();
    await call("GET", "/api/v1/me", { key: firstKey });
    const expiresAt = Date.now() + 60_000;
    await updateKeyRow(keyIdOf(firstKey), { expires_at: expiresAt });
    const commit = commitTo({ db });
    let isFirst = true;
    const writing = {
      db,
      activity,
      guards: env.KEY_GUARD,
      now: Date.now(),
      actor: { accountId, by: { type: "member" as const, id: owner.member.id }, from: noOrigin },
      commit: async (change: Parameters<typeof commit>[0]) => {
        if (isFirst) await markMemberRemoved(leaver.member.id, expiresAt);
        isFirst = false;
        return commit(change);
      },
    };
    await expect(changeKey(writing as never, keyIdOf(firstKey), { expiresAt: null }, () => true)).rejects.toThrow(
      "a member who may know its secret was removed",
    );
    expect((await readKeyRow(keyIdOf(firstKey))).expires_at).toBe(expiresAt);
  });
});

describe("The cron job", () => {
  it("finishes the removals of all accounts in turn, even if one account has many keys to revoke", async () => {
    const [busy, other] = [await makeTenant(), await makeTenant()];
    const addEnding = async ({ accountId }: { accountId: string }, ageMs: number) => {
      const { keyId } = await makeKey(accountId);
      await insertEnding(accountId, { id: keyId, name: "A key" }, ageMs);
    };
    for (let count = 0; count < 9; count++) await addEnding(busy, 10 * minuteMs);
    await addEnding(other, 2 * minuteMs);
    await cron();
    expect([await countEndings(busy.accountId), await countEndings(other.accountId)]).toEqual([4, 0]);
    await cron();
    expect(await countEndings(busy.accountId)).toBe(0);
  });

  it("retries a key that it could not revoke only after all other keys", async () => {
    const addEnding = async (ageMs: number, name: string) => {
      const { accountId } = await makeTenant();
      const { keyId } = await makeKey(accountId, { name });
      await insertEnding(accountId, { id: keyId, name }, ageMs);
      return accountId;
    };
    await whileKeyChangesFail("Failing", async () => {
      const failing: string[] = [];
      for (let count = 0; count < 6; count++) failing.push(await addEnding(10 * minuteMs, "Failing"));
      const succeeding = await addEnding(5 * minuteMs, "Succeeding");
      await expect(cron()).rejects.toThrow("finish_removals");
      expect(await countEndings(succeeding)).toBe(1);
      await cron();
      expect([await countEndings(succeeding), await countEndings(failing[0] ?? "")]).toEqual([0, 1]);
    });
    await cron(Date.now() + 2 * minuteMs);
    await cron(Date.now() + 2 * minuteMs);
    expect(await countAllEndings()).toBe(0);
  });
});
