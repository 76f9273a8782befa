import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { createApp } from "../../../src/app.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { countingD1 } from "../support/d1.ts";
import { register, verifyRequest, waitForRequest } from "../support/receiver.ts";

/** Reports a key as leaked to a Worker with this database, and waits until the Worker has handled the report. Returns the status. */
async function reportLeakedKey(DB: D1Database, key: string): Promise<number> {
  const ctx = createExecutionContext();
  const request = new Request("http://localhost/api/v1/keys/revoke-leaked", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ key }),
  });
  const { status } = await createApp({ isLocal: true }).fetch(request, { ...env, DB }, ctx);
  await waitOnExecutionContext(ctx);
  return status;
}

it("Repeated reports of a leaked key cause one lookup", async () => {
  const { DB, counts } = countingD1();
  const { key, accountId } = await makeTenant();
  const { key: leaked } = await makeKey(accountId);
  expect(await reportLeakedKey(DB, leaked)).toBe(202);
  expect(counts.statements).toBeGreaterThan(0);
  expect((await call("GET", "/api/v1/me", { key: leaked })).body.code).toBe("revoked_key");
  counts.statements = 0;
  for (let report = 0; report < 20; report++) expect(await reportLeakedKey(DB, leaked)).toBe(202);
  expect(counts.statements).toBe(0);
  expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
});

it("A leak report that is longer than the maximum body gets 202", async () => {
  const { status } = await call("POST", "/api/v1/keys/revoke-leaked", { body: `{"key":"${"x".repeat(70_000)}"}` });
  expect(status).toBe(202);
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
