import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { call, makeTenant, type Tenant } from "../support/client.ts";
import { attemptDelivery, deliveriesOf, deliveryWait, newPath, register, waitForRequest, waitForRequests } from "../support/receiver.ts";

// A burst of deliveries from one account does not delay other accounts. No receiver gets more than ten requests at once.

const taskCount = 100;

/** Returns the number of attempts in flight for each webhook of an account. Omits webhooks without an attempt in flight. */
async function countInFlight(accountId: string): Promise<number[]> {
  const { results } = await env.DB.prepare(
    "SELECT count(*) AS count FROM deliveries WHERE account_id = ? AND claim IS NOT NULL AND claimed_until > ? GROUP BY webhook_id",
  )
    .bind(accountId, Date.now())
    .all<{ count: number }>();
  return results.map(({ count }) => count);
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);

const insertAssignedTasks = (accountId: string, userId: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO tasks
        (id, account_id, title, description, search_text, status, priority, labels, assignee_id, revision, created_at, updated_at)
      SELECT 'tsk_' || lower(hex(randomblob(16))), ?1, 't', '', 't', 'todo', 'normal', '[]', ?2, lower(hex(randomblob(8))), 1, 1
      FROM json_each(?3)`,
  )
    .bind(accountId, userId, JSON.stringify(Array.from({ length: count }, (_, index) => index)))
    .run();

/**
 * Creates an account with a user who has 100 tasks. Creates one webhook for each given behaviour of a receiver. The returned function
 * `startBurst` deletes the user, and the deletion updates all 100 tasks.
 */
async function prepareBurst(behaviours: string[]) {
  const tenant = await makeTenant();
  const { key, accountId } = tenant;
  const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
  await insertAssignedTasks(accountId, user.body.id, taskCount);
  const webhooks = [];
  for (const behaviour of behaviours) webhooks.push(await register(key, { event_types: ["task.updated"] }, newPath(behaviour)));
  return { tenant, webhooks, startBurst: () => call("DELETE", `/api/v1/users/${user.body.id}`, { key }) };
}

/** Makes the first attempt of a pending delivery of a webhook. Returns whether the attempt sent a request. */
async function attemptWaitingDelivery(tenant: Tenant, webhookId: string): Promise<boolean> {
  const pending: { id: string; attempts_made: number }[] = await deliveriesOf(tenant, webhookId, "?status=pending&limit=100");
  const waiting = pending.find(({ attempts_made }) => attempts_made === 0);
  expect(waiting).toBeDefined();
  const send = vi.fn(async () => new Response(null, { status: 204 }));
  await attemptDelivery(waiting?.id ?? "", { fetch: send });
  return send.mock.calls.length > 0;
}

it("A burst has at most ten attempts in flight per webhook and fifty per account, and delays no other account", async () => {
  const { tenant, webhooks, startBurst } = await prepareBurst(Array<string>(7).fill("hang"));
  expect((await startBurst()).status).toBe(204);
  const other = await makeTenant();
  const { path } = await register(other.key, { event_types: ["task.created"] });
  await vi.waitFor(async () => expect(sumOf(await countInFlight(tenant.accountId))).toBeGreaterThanOrEqual(50), deliveryWait);
  expect(webhooks).toHaveLength(7);
  // The receivers hang, so the attempts in flight occupy every slot for 15 seconds. Another attempt for any of the webhooks must find no
  // free slot.
  for (const { id } of webhooks) expect(await attemptWaitingDelivery(tenant, id)).toBe(false);
  const counts = await countInFlight(tenant.accountId);
  expect({ ofWebhook: Math.max(...counts), ofAccount: sumOf(counts) }).toEqual({ ofWebhook: 10, ofAccount: 50 });
  const createdAt = Date.now();
  await call("POST", "/api/v1/tasks", { key: other.key, body: { title: "x" } });
  const request = await waitForRequest(path);
  expect(request.at - createdAt).toBeLessThan(1000);
});

it("A webhook whose receiver hangs has at most ten attempts in flight, and delays no other webhook of its account", async () => {
  const { tenant, webhooks, startBurst } = await prepareBurst(["hang", "take"]);
  const startedAt = Date.now();
  await startBurst();
  await vi.waitFor(async () => expect(sumOf(await countInFlight(tenant.accountId))).toBeGreaterThanOrEqual(10), deliveryWait);
  expect(await attemptWaitingDelivery(tenant, webhooks[0]?.id ?? "")).toBe(false);
  const requests = await waitForRequests(webhooks[1]?.path ?? "", taskCount);
  // Ten attempts of the hanging receiver end after 15 seconds.
  expect((requests.at(-1)?.at ?? 0) - startedAt).toBeLessThan(10_000);
  await vi.waitFor(async () => expect(await countInFlight(tenant.accountId)).toEqual([10]), deliveryWait);
});

it("Each attempt that ends starts the next delivery, until all are delivered without the sweep", async () => {
  const { tenant, webhooks, startBurst } = await prepareBurst(["take"]);
  const [webhook] = webhooks;
  await startBurst();
  const requests = await waitForRequests(webhook?.path ?? "", taskCount);
  expect(new Set(requests.map(({ headers }) => headers["webhook-id"])).size).toBe(taskCount);
  await vi.waitFor(async () => expect(await deliveriesOf(tenant, webhook?.id ?? "", "?status=pending")).toEqual([]), deliveryWait);
  expect(await countInFlight(tenant.accountId)).toEqual([]);
});
