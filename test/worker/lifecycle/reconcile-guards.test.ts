import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { firstLogWriter } from "../../../src/log/databases.ts";
import { writersOf } from "../../../src/log/writers.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { deleteAuditRows, deleteKeyRow, readKeyRow, updateKeyRow } from "../support/key-rows.ts";
import { operate, reconcileGuards } from "../support/operate.ts";
import { tryKey } from "../support/try-key.ts";

describe("The reconciliation of guards", () => {
  it("continues with key rows, then with the audit log, then with the key uses in each log writer and in each activity database", async () => {
    const databases = ["ACTIVITY_0", "ACTIVITY_1"];
    const writers = databases.flatMap((database) => Array.from({ length: writersOf(env) }, (_, number) => `${database}/${number}`));
    const sources = ["audit", ...[...writers, ...databases].map((name) => `uses-${name}`)];
    const positions: string[] = [];
    for (const after of ["rows:key_zzzzzzzzzzzzzzzz", ...sources.map((source) => `${source}:acc_z/`)])
      positions.push((await operate("POST", "/guards/reconcile", { after })).body.next);
    expect(positions).toEqual([...sources.map((source) => `${source}:`), null]);
  });

  it("updates key rows that are older than their guards, and revokes guards without a key row", async () => {
    const { accountId, key } = await makeTenant();
    const [revoked, lost] = [await makeKey(accountId), await makeKey(accountId)];
    const { version = 0, pushed_version = 0, revision = "" } = await readKeyRow(revoked.keyId);
    expect([await tryKey(revoked.key), await tryKey(lost.key)]).toEqual([200, 200]);
    await call("DELETE", `/api/v1/keys/${revoked.keyId}`, { key });
    // The next two statements simulate a restore of D1 to an earlier time. At that time, the first key was not revoked, and the second key
    // did not exist.
    await updateKeyRow(revoked.keyId, { state: "active", version, pushed_version, revision });
    await deleteKeyRow(lost.keyId);
    expect(await tryKey(lost.key)).toBe(200);
    const result = await reconcileGuards(accountId, revoked.keyId);
    expect(result.reconciled).toContain(revoked.keyId);
    expect(result.revoked).toContain(lost.keyId);
    expect([await tryKey(revoked.key), await tryKey(lost.key), await tryKey(key)]).toEqual(["revoked_key", "revoked_key", 200]);
    expect((await readKeyRow(revoked.keyId)).state).toBe("revoked");
  });

  it("finds a key in the log writer of its account, if the row and the audit entries of the key are lost", async () => {
    const { accountId } = await makeTenant();
    const lost = await makeKey(accountId);
    expect(await tryKey(lost.key)).toBe(200);
    await deleteKeyRow(lost.keyId);
    await deleteAuditRows(accountId);
    await vi.waitFor(async () => {
      const { body } = await operate("POST", "/guards/reconcile", { after: `uses-${firstLogWriter}:${accountId}/` });
      expect(body.revoked).toContain(lost.keyId);
    }, logDelay);
    expect(await tryKey(lost.key)).toBe("revoked_key");
  });
});
