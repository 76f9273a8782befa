import { expect, it } from "vitest";
import { markSampleData } from "../../../src/operations/sample-data.ts";
import { dayMs } from "../../../src/time/clock.ts";
import { browse } from "../support/browse.ts";
import { call, db, makeKey, makeTenant, within2s } from "../support/client.ts";
import { entryOf, write } from "../support/entries.ts";

it("Sample data are marked, and can be removed: what is left is what has come since", async () => {
  const { accountId, key: sample, keyId } = await makeTenant();
  const now = Date.now();
  await write([0, 1, 2].map((day) => entryOf({ accountId, keyId }, now - day * dayMs - 1)));
  const { body: user } = await call("POST", "/api/v1/users", { key: sample, body: { name: "Ada", email: "ada@example.com" } });
  await call("POST", "/api/v1/tasks", { key: sample, body: { title: "Made up", assignee_id: user.id } });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await markSampleData(db, accountId, Date.now());
  await new Promise((resolve) => setTimeout(resolve, 5));
  const { key } = await makeKey(accountId, {
    scopes: ["users:read", "tasks:read", "tasks:write", "usage:read", "keys:read", "webhooks:read"],
  });
  const { get, post } = browse(accountId);
  expect((await get("/")).text).toContain("Sample data");
  await call("POST", "/api/v1/tasks", { key, body: { title: "My own" } });
  await within2s(
    () => call("GET", "/api/v1/usage", { key }),
    ({ body }) => body.total_requests.value >= 6,
  );
  expect((await post("/settings/sample-data")).status).toBe(303);
  expect((await call("GET", "/api/v1/me", { key: sample })).body.code).toBe("revoked_key");
  const list = async (path: string) => (await call("GET", `/api/v1/${path}`, { key })).body.data;
  expect((await list("users")).length).toBe(0);
  expect((await list("tasks")).map(({ title }: { title: string }) => title)).toEqual(["My own"]);
  expect((await list("keys")).length).toBe(1);
  const { body: usage } = await call("GET", "/api/v1/usage", { key });
  expect(usage.by_class["2xx"]).toBeGreaterThan(0);
  expect(usage.series.slice(0, -1).every(({ requests }: { requests: number }) => requests === 0)).toBe(true);
  // Nothing is said of keys that never were but that they were removed.
  expect((await get("/")).text).not.toMatch(/key “[^”]*” revoked/);
  const audit = (await get("/settings/audit")).text;
  expect([audit.includes("account.sample_data_removed"), audit.includes("key.revoked")]).toEqual([true, false]);
  const after = await get("/settings");
  expect(after.text).not.toContain("Remove sample data");
});
