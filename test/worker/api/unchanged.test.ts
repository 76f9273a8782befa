import { describe, expect, it } from "vitest";
import { call, makeTenant } from "../support/client.ts";
import { countAuditRows } from "../support/log-rows.ts";
import { countEvents } from "../support/webhook-rows.ts";

// If a resource already has the requested values, a request to change the resource has no effect. A request without effect creates no
// events, no audit log entries and no versions, even if a client repeats the request.

/** Returns the number of an account's events, and the number of its audit log entries. */
const countEventsAndEntries = async (accountId: string) => [await countEvents(accountId), await countAuditRows(accountId)];

describe.each<[string, string, object, object[], object]>([
  [
    "A user",
    "/users",
    { name: "Ada", email: "Ada@Example.com", role: "viewer" },
    [{}, { name: "Ada" }, { email: "Ada@Example.com", role: "viewer", status: "active" }],
    { email: "ada@example.com" },
  ],
  [
    "A task",
    "/tasks",
    { title: "x", description: "", labels: ["b", "a"], due_at: "2030-01-01T00:00:00Z", status: "done" },
    [
      {},
      { due_at: "2030-01-01T02:00:00.000+02:00" },
      { due_at: "2029-12-31t19:00:00-05:00", labels: ["b", "a"], status: "done" },
      { description: null, assignee_id: null, title: "x", priority: "normal" },
    ],
    { labels: ["a", "b"] },
  ],
  [
    "A key",
    "/keys",
    { name: "x", scopes: ["tasks:read", "users:read"], expires_at: "2090-01-01T00:00:00Z", allowed_ips: [] },
    [
      { scopes: ["users:read", "tasks:read"] },
      { status: "active", allowed_ips: null, overlap_ends_at: null },
      { name: "x", expires_at: "2090-01-01T01:00:00+01:00", hourly_limit: 5000 },
    ],
    { hourly_limit: 4999 },
  ],
  [
    "A webhook",
    "/webhooks",
    { url: "https://hooks.acme.dev/", event_types: ["task.created", "task.updated"] },
    [
      { status: "active" },
      { description: null, event_types: ["task.created", "task.updated", "task.created"] },
      { url: "https://hooks.acme.dev/" },
    ],
    { event_types: ["task.created"] },
  ],
])("%s", (_, list, content, same, other) => {
  it("keeps its body and its ETag, and gets no event and no audit log entry, if a PATCH changes nothing", async () => {
    const { key, accountId } = await makeTenant();
    const path = (await call("POST", `/api/v1${list}`, { key, body: content })).headers.get("Location") ?? "";
    const before = await call("GET", path, { key });
    const counts = await countEventsAndEntries(accountId);
    for (const body of same) {
      const response = await call("PATCH", path, { key, body, "If-Match": before.headers.get("ETag") });
      expect([response.status, response.body, response.headers.get("ETag")], JSON.stringify(body)).toEqual([
        200,
        before.body,
        before.headers.get("ETag"),
      ]);
    }
    expect(await countEventsAndEntries(accountId)).toEqual(counts);
    expect((await call("PATCH", path, { key, body: same[1], "If-Match": '"other"' })).status).toBe(412);
    expect((await call("GET", path, { key, "If-None-Match": before.headers.get("ETag") })).status).toBe(304);
    const changed = await call("PATCH", path, { key, body: { ...same[0], ...other } });
    expect(changed.body.updated_at > before.body.updated_at).toBe(true);
    expect(changed.headers.get("ETag")).not.toBe(before.headers.get("ETag"));
    expect(await countEventsAndEntries(accountId)).not.toEqual(counts);
  });
});
