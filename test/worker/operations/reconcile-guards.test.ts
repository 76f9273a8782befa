import { describe, expect, it } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { deleteKeyRow, readKeyRow, updateKeyRow } from "../support/key-rows.ts";
import { operate, reconcileGuards } from "../support/operate.ts";
import { tryKey } from "../support/try-key.ts";

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
});
