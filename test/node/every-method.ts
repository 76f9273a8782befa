import { createClient, responseOf, verifyWebhook } from "../../client/src/index.ts";

// A program that calls every method of the client. packed-client.test.ts compiles this program with the packed client, and then runs the
// program.

declare const process: { env: Record<string, string | undefined> };

const { BASE_URL = "", API_KEY = "" } = process.env;
const called = new Set<string>();

/** Wraps a client. If a method of the client is called, the name of the method is added to `called`. */
const recordCalls = <Target extends object>(target: Target, prefix: string): Target =>
  new Proxy(target, {
    get(object, name) {
      const value = Reflect.get(object, name) as unknown;
      if (typeof value === "object" && value !== null) return recordCalls(value, `${prefix}${String(name)}.`);
      called.add(`${prefix}${String(name)}`);
      return value;
    },
  });

const plainClient = createClient({ baseUrl: BASE_URL, apiKey: API_KEY });
const client = recordCalls(plainClient, "");
const { signal } = new AbortController();

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Repeats a call until it returns a value. This program runs without vitest, so it cannot use `vi.waitFor`. */
async function retry<Result>(attempt: () => Promise<Result | undefined>): Promise<Result> {
  for (;;) {
    const result = await attempt().catch(() => undefined);
    if (result !== undefined) return result;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const check = (condition: boolean, what: string) => {
  if (!condition) throw new Error(`the check of ${what} failed`);
};

// Users and tasks.
const user = await client.users.create({ name: "Ada", email: `ada.${Date.now()}@example.com` });
await client.users.update(user.id, { name: "Ada Lovelace" }, { signal });
const task = await client.tasks.create({ title: "Every method", assignee_id: user.id }, { idempotencyKey: `every-method-${Date.now()}` });
const etag = responseOf(task)?.headers.get("ETag") ?? "";
const done = await client.tasks.update(task.id, { status: "done" }, { ifMatch: etag });
check(done.status === "done" && (await client.tasks.get(task.id)).completed_at !== null, "a change");
check((await collect(client.tasks.list({ status: ["done"] }, { signal }))).length > 0, "a list");
check((await client.users.list({ limit: 1 })).data.length === 1 && (await client.users.get(user.id)).name === "Ada Lovelace", "a page");

// Usage, analytics and the log.
const me = await client.me.get();
const requestId = responseOf(me)?.headers.get("X-Request-Id") ?? "";
const entry = await retry(() => client.activity.get(requestId));
check(entry.user_agent?.startsWith("developer-overview-client/") === true, "the User-Agent");
check((await client.activity.list({ limit: 1 })).data.length === 1, "the log");
check((await client.rateLimit.get()).policies.length > 0 && (await client.analytics.get()).users.total > 0, "figures");
check((await client.account.limits()).by_key.length === 0, "limits of the account");
const usage = await client.usage.get({ window: "24h" });
const shares = await client.usage.breakdown({ window: "24h", by: "route" });
check(usage.total_requests.value > 0 && shares.data.length > 0, "usage");

// Keys.
const key = await client.keys.create({ name: "Another", scopes: ["tasks:read"] });
const rotated = await client.keys.rotate(key.id);
check(key.secret_key.length > 40 && rotated.secret_key !== key.secret_key, "secrets");
await client.keys.update(key.id, { hourly_limit: 10 });
await client.keys.revokeLeaked({ key: rotated.secret_key });
await client.keys.revoke(key.id);
check((await client.keys.get(key.id)).status === "revoked" && (await collect(client.keys.list())).length > 1, "keys");

// Webhooks, events and deliveries. No server listens on port 9, so the deliveries fail.
const webhook = await client.webhooks.create({ url: "http://localhost:9/", event_types: ["task.created"] });
const { secret } = await client.webhooks.rotateSecret(webhook.id, { overlap_seconds: 60 });
check(secret.startsWith("whsec_") && typeof verifyWebhook === "function", "a secret of a webhook");
await client.webhooks.update(webhook.id, { description: "Nobody" });
check((await client.webhooks.get(webhook.id)).description === "Nobody" && (await collect(client.webhooks.list())).length > 0, "webhooks");
await client.tasks.delete((await client.tasks.create({ title: "An event" })).id);
const test = await client.webhooks.test(webhook.id);
const pending = await retry(async () => (await client.deliveries.get(test.delivery_id)).attempts.length > 0 || undefined);
check(pending && (await client.deliveries.list(webhook.id)).data.length > 0, "deliveries");
// A test has one attempt. Other events have more.
const created = await retry(async () => {
  const found = (await client.deliveries.list(webhook.id)).data.find((each) => each.event_type === "task.created");
  return found && (await client.deliveries.get(found.id)).attempts.length > 0 ? found : undefined;
});
await client.deliveries.attempt(created.id);
await client.deliveries.redeliver(test.delivery_id);
check((await client.webhooks.redeliver(webhook.id, { from: "2026-01-01T00:00:00Z", dry_run: true })).count >= 0, "a dry run");
const many = await client.webhooks.redeliver(webhook.id, { from: "2026-01-01T00:00:00Z" });
check("id" in many && (await client.redeliveries.get(many.id)).count === many.count, "a redelivery");
for await (const event of client.events.list({ type: ["task.created"] })) {
  if (event.type === "task.created")
    check(typeof event.data.title === "string" && (await client.events.get(event.id)).id === event.id, "an event");
  break;
}
check((await client.eventTypes.list()).data.length > 10 && (await client.audit.list({ limit: 1 })).data.length === 1, "types and audit");
await client.webhooks.delete(webhook.id);

check((await client.openapi.get()).openapi === "3.1.0" && (await client.openapi.getYaml()).startsWith("openapi: 3.1.0"), "the document");
await client.tasks.delete(task.id);
await client.users.delete(user.id);

const all = Object.entries(plainClient).flatMap(([resource, methods]) =>
  typeof methods === "object" ? Object.keys(methods).map((method) => `${resource}.${method}`) : [],
);
console.log(JSON.stringify({ methods: all.length, notCalled: all.filter((method) => !called.has(method)) }));
