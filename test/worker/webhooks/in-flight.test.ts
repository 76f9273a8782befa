import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { call, makeTenant } from "../support/client.ts";
import { deliveriesOf, newPath, receivedAt, register, until } from "../support/receiver.ts";

// One account's burst: nobody else waits for it, and no receiver sees more than ten at once.

const tasks = 100;

const inFlight = (accountId: string) =>
  env.DB.prepare(
    "SELECT webhook_id AS webhook, count(*) AS count FROM deliveries WHERE account_id = ? AND claim IS NOT NULL AND claimed_until > ? GROUP BY 1",
  )
    .bind(accountId, Date.now())
    .all<{ webhook: string; count: number }>();

/** An account whose user has so many tasks, and that sends their events to receivers of these behaviours. */
async function burst(behaviours: string[]) {
  const tenant = await makeTenant();
  const { key, accountId } = tenant;
  const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
  await env.DB.prepare(
    `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, assignee_id, revision, created_at, updated_at)
    SELECT 'tsk_' || lower(hex(randomblob(16))), ?1, 't', '', 't', 'todo', 'normal', '[]', ?2, lower(hex(randomblob(8))), 1, 1 FROM json_each(?3)`,
  )
    .bind(accountId, user.body.id, JSON.stringify(Array.from({ length: tasks }, (_, index) => index)))
    .run();
  const webhooks = [];
  for (const behaviour of behaviours) webhooks.push(await register(key, { event_types: ["task.updated"] }, newPath(behaviour)));
  return { tenant, webhooks, delete: () => call("DELETE", `/api/v1/users/${user.body.id}`, { key }) };
}

it("At most ten attempts of a webhook and fifty of an account are in flight, and another account's event is there within a second", async () => {
  const { tenant, webhooks, ...one } = await burst(Array<string>(7).fill("hang"));
  expect((await one.delete()).status).toBe(204);
  const other = await makeTenant();
  const { path } = await register(other.key, { event_types: ["task.created"] });
  let most = { ofWebhook: 0, ofAccount: 0 };
  for (let looks = 0; looks < 20; looks++) {
    const { results } = await inFlight(tenant.accountId);
    const counts = results.map(({ count }) => count);
    most = {
      ofWebhook: Math.max(most.ofWebhook, ...counts),
      ofAccount: Math.max(
        most.ofAccount,
        counts.reduce((sum, count) => sum + count, 0),
      ),
    };
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  expect(most).toEqual({ ofWebhook: 10, ofAccount: 50 });
  expect(webhooks).toHaveLength(7);
  const madeAt = Date.now();
  await call("POST", "/api/v1/tasks", { key: other.key, body: { title: "x" } });
  const received = await until(
    () => receivedAt(path),
    (seen) => seen.length === 1,
  );
  expect(received).toHaveLength(1);
  expect((received[0]?.at ?? 0) - madeAt).toBeLessThan(1000);
});

it("What waits is set off by what ends, until all is delivered, without the sweep", async () => {
  const { tenant, webhooks, ...one } = await burst(["take"]);
  const [webhook] = webhooks;
  await one.delete();
  const received = await until(
    () => receivedAt(webhook?.path ?? ""),
    (seen) => seen.length >= tasks,
  );
  expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(tasks);
  const waiting = await until(
    () => deliveriesOf(tenant, webhook?.id ?? "", "?status=pending"),
    (seen) => seen.length === 0,
  );
  expect(waiting).toEqual([]);
  expect((await inFlight(tenant.accountId)).results).toEqual([]);
});
