import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { minuteMs } from "../../../src/time/clock.ts";
import { browse } from "../support/browse.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { deliveriesOf, newPath, receivedAt, receiver, register, until } from "../support/receiver.ts";

describe("A redelivery", () => {
  it("of one delivery is a new delivery of the same event", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const { id, path } = await register(key);
    await call("POST", "/api/v1/tasks", { key, body: { title: "Again" } });
    await until(
      () => receivedAt(path),
      (seen) => seen.length === 1,
    );
    const [first] = await deliveriesOf(tenant, id);
    const answers = [
      await call("POST", `/api/v1/deliveries/${first.id}/redeliver`, { key }),
      await call("POST", `/api/v1/deliveries/${first.id}/redeliver`, { key }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    const seen = await until(
      () => receivedAt(path),
      (all) => all.length === 3,
    );
    expect(new Set(seen.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set([first.event_id]));
    const again = (await call("GET", `/api/v1/deliveries/${answers[0]?.body.id}`, { key })).body;
    expect(again).toMatchObject({ event_id: first.event_id, redelivery_of: first.id });
  });

  it("of all that match counts first, is paced, and tells how far it is", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const from = new Date(Date.now() - 1000).toISOString();
    const { id, path } = await register(key, { event_types: ["task.created"] });
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
    for (let index = 0; index < 4; index++) await call("POST", "/api/v1/tasks", { key, body: { title: `Held ${index}` } });
    const redeliver = (more: object) => call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from, ...more } });
    expect(await redeliver({ dry_run: true })).toMatchObject({ status: 200, body: { count: 4 } });
    expect(await redeliver({ to: from })).toMatchObject({
      status: 422,
      body: { code: "invalid_body", errors: [{ pointer: "/from", code: "invalid_span" }] },
    });
    expect((await redeliver({})).status).toBe(409);
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "active" } });
    const { status, body } = await redeliver({});
    expect([status, body.count]).toEqual([202, 4]);
    const done = await until(
      async () => (await call("GET", `/api/v1/redeliveries/${body.id}`, { key })).body,
      (progress) => progress.status === "done",
    );
    expect(done).toEqual({ id: body.id, count: 4, sent: 4, status: "done" });
    const seen = await receivedAt(path);
    expect(seen).toHaveLength(4);
    expect((seen.at(-1)?.at ?? 0) - (seen[0]?.at ?? 0)).toBeGreaterThan(400);
  });
});

it("The page of a delivery puts any two of its attempts beside each other", async () => {
  const tenant = await makeTenant();
  const { accountId, key } = tenant;
  // Nobody listens there.
  const { id } = (await call("POST", "/api/v1/webhooks", { key, body: { url: "http://localhost:9/x", event_types: ["task.created"] } }))
    .body;
  await call("POST", "/api/v1/tasks", { key, body: { title: "Twice" } });
  const attempted = (times: number) =>
    until(
      () => deliveriesOf(tenant, id),
      ([first]) => first?.attempts_made === times,
    );
  const [{ id: delivery }] = await attempted(1);
  const pageOf = async (query = "") => (await browse(accountId).get(`/deliveries/${delivery}${query}`)).text.replaceAll(/<[^>]+>/g, " ");
  expect(await pageOf()).not.toContain("Two attempts compared");
  await call("POST", `/api/v1/deliveries/${delivery}/attempt`, { key });
  // An attempt counts from its beginning, and is on record at its end.
  await until(
    async () => (await call("GET", `/api/v1/deliveries/${delivery}`, { key })).body.attempts,
    (made) => made.length === 2,
  );
  expect((await pageOf("?attempt=2&with=1")).replaceAll(/\s+/g, " ")).toMatch(
    /Attempt 2 Attempt 1 Same\? .* Result unreachable unreachable = the same/,
  );
  expect(await pageOf("?attempt=7&with=nothing")).toContain("Same?");
});

it("A redelivery of many asks for the scopes of what it would send, and so does another URL for what still waits", async () => {
  const { key, accountId } = await makeTenant();
  const { id } = await register(key, { event_types: ["user.created"] }, newPath("fail"));
  await call("POST", "/api/v1/users", { key, body: { name: "Secret", email: "secret@example.com" } });
  await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { event_types: ["task.created"] } });
  const narrow = await makeKey(accountId, { scopes: ["webhooks:read", "webhooks:write", "tasks:read"] });
  const url = await call("PATCH", `/api/v1/webhooks/${id}`, { key: narrow.key, body: { url: `${receiver}/elsewhere` } });
  expect(url.body.code).toBe("forbidden");
  await env.DB.prepare("UPDATE deliveries SET status = 'failed' WHERE account_id = ?").bind(accountId).run();
  const from = new Date(Date.now() - minuteMs).toISOString();
  for (const dry_run of [true, false]) {
    const { body } = await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key: narrow.key, body: { from, dry_run } });
    expect(body.code).toBe("forbidden");
  }
});

it("Two redeliveries of many in a row send each event once", async () => {
  const { key } = await makeTenant();
  const { id, path } = await register(key, { event_types: ["task.created"] });
  await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
  for (let index = 0; index < 3; index++) await call("POST", "/api/v1/tasks", { key, body: { title: `Held ${index}` } });
  await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "active" } });
  const body = { from: new Date(Date.now() - minuteMs).toISOString() };
  const redeliver = () => call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body });
  // At once, both may find the same; what the later would send is on its way already.
  const [first, second] = await Promise.all([redeliver(), redeliver()]);
  expect([first.status, second.status]).toEqual([202, 202]);
  expect((await redeliver()).body.count).toBe(0);
  await until(
    () => receivedAt(path),
    (seen) => seen.length === 3,
  );
  expect((await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { ...body, dry_run: true } })).body.count).toBe(0);
  const dry = { key, body: { ...body, dry_run: true }, "Idempotency-Key": "count" };
  await call("POST", `/api/v1/webhooks/${id}/redeliver`, dry);
  expect((await call("POST", `/api/v1/webhooks/${id}/redeliver`, dry)).headers.get("Idempotent-Replayed")).toBe("true");
});
