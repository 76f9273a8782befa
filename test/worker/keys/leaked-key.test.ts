import { expect, it } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { countingD1 } from "../support/d1.ts";
import { reportLeakedKey } from "../support/leaked-keys.ts";
import { register, verifyRequest, waitForRequest } from "../support/receiver.ts";

it("Repeated reports of a leaked key cause one lookup", async () => {
  const { DB, counts } = countingD1();
  const { key, accountId } = await makeTenant();
  const { key: leaked } = await makeKey(accountId);
  await reportLeakedKey(leaked, { DB });
  expect(counts.statements).toBeGreaterThan(0);
  expect((await call("GET", "/api/v1/me", { key: leaked })).body.code).toBe("revoked_key");
  counts.statements = 0;
  for (let report = 0; report < 20; report++) await reportLeakedKey(leaked, { DB });
  expect(counts.statements).toBe(0);
  expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
});

it("The service delivers an event of a key that was reported as leaked", async () => {
  const { key, accountId } = await makeTenant();
  const { path, secret } = await register(key, { event_types: ["key.revoked"] });
  const leaked = await makeKey(accountId);
  await call("POST", "/api/v1/keys/revoke-leaked", { body: { key: leaked.key } });
  expect(verifyRequest(secret, await waitForRequest(path))).toMatchObject({
    type: "key.revoked",
    data: { id: leaked.keyId, status: "revoked" },
  });
});
