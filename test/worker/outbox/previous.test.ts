import { describe, expect, it } from "vitest";
import { hashOf } from "../../../src/lib/crypto/hash.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { register, verifyRequest, waitForRequest } from "../support/receiver.ts";
import { readEventRows } from "../support/webhook-rows.ts";

describe("The `previous` member of an event", () => {
  const updates = async (key: string, type: string) =>
    (await call("GET", `/api/v1/events?type=${type}&order=asc&limit=100`, { key })).body.data as {
      id: string;
      data: object;
      previous: object;
    }[];

  it.each<[string, string, string, object, object, object]>([
    ["a user", "/users", "user.updated", { name: "Ada", email: "ada@example.com" }, { role: "admin", name: "Ada" }, { role: "member" }],
    [
      "a task",
      "/tasks",
      "task.updated",
      { title: "x", labels: ["a"], due_at: "2030-01-01T00:00:00Z" },
      { status: "done", labels: ["a", "b"], due_at: null },
      { status: "todo", labels: ["a"], due_at: "2030-01-01T00:00:00.000Z", completed_at: null },
    ],
    [
      "a key",
      "/keys",
      "key.updated",
      { name: "x" },
      { status: "disabled", allowed_ips: ["203.0.113.7"] },
      { status: "active", allowed_ips: [] },
    ],
  ])("has the former values of %s in `GET /events` and in webhook requests", async (_, list, type, content, patch, formerValues) => {
    const { key } = await makeTenant();
    const { path, secret } = await register(key, { event_types: [type] });
    const { body: created, headers } = await call("POST", `/api/v1${list}`, { key, body: content });
    const { body: changed } = await call("PATCH", headers.get("Location") ?? "", { key, body: patch });
    const previous = { ...formerValues, updated_at: created.updated_at };
    const [event] = await updates(key, type);
    expect(event?.previous).toEqual(previous);
    expect((await call("GET", `/api/v1/events/${event?.id}`, { key })).body.previous).toEqual(previous);
    expect(verifyRequest(secret, await waitForRequest(path))).toMatchObject({
      type,
      data: { id: created.id, updated_at: changed.updated_at },
      previous,
    });
  });

  it("has the values of the version before, for each of several concurrent changes", async () => {
    const { key } = await makeTenant();
    const { body: created, headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "0" } });
    const path = headers.get("Location") ?? "";
    await Promise.all(Array.from({ length: 6 }, (_, n) => call("PATCH", path, { key, body: { title: `${n + 1}` } })));
    let last = { title: created.title, updated_at: created.updated_at };
    for (const { data, previous } of await updates(key, "task.updated")) {
      expect(previous).toEqual(last);
      const { title, updated_at } = data as typeof last;
      last = { title, updated_at };
    }
    expect(last.title).not.toBe("0");
  });

  it("has no secret after a rotation and after the end of its overlap", async () => {
    const { key, accountId } = await makeTenant();
    const { keyId, key: oldSecret } = await makeKey(accountId);
    const { body: rotated } = await call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds: 600 } });
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { overlap_ends_at: null } });
    const stored = JSON.stringify(await readEventRows(accountId));
    for (const secret of [oldSecret, rotated.secret_key]) {
      expect(stored).not.toContain(secret.slice(21, 50));
      expect(stored).not.toContain(hashOf(secret));
    }
    expect(Object.keys((await updates(key, "key.updated"))[0]?.previous ?? {}).toSorted()).toEqual(["overlap_ends_at", "updated_at"]);
  });
});
