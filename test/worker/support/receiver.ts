import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { expect, inject, vi } from "vitest";
import type { Received } from "../../../scripts/receiving.ts";
import { eventCatalogue } from "../../../src/outbox/catalogue.ts";
import { type Event, newExampleEvent } from "../../../src/outbox/event.ts";
import { commitEvents } from "../../../src/outbox/write-events.ts";
import { type DeliveryContext, deliver } from "../../../src/webhooks/deliveries/deliver.ts";
import { encryptionSecrets } from "../../../src/webhooks/subscriptions/encryption.ts";
import { call, db, type Tenant } from "./client.ts";
import { markAnswered } from "./webhook-rows.ts";

/** The URL of the local webhook receiver (scripts/receiving.ts). */
export const receiver = inject("receiver");

/** Returns a new path of the receiver. `behaviour` selects how the receiver responds to requests at the path (scripts/receiving.ts). */
export const newPath = (behaviour = "take") => `/${behaviour}/${crypto.randomUUID()}`;

/** Returns the requests that the receiver got at a path, oldest first. */
export const receivedAt = async (path: string): Promise<Received[]> => (await fetch(`${receiver}/received?path=${path}`)).json();

/** The options of `vi.waitFor` for tests that wait for the effects of a delivery. Both times are in milliseconds. */
export const deliveryWait = { timeout: 20_000, interval: 25 };

/** Waits until the receiver has got exactly `count` requests at a path, and returns the requests. */
export const waitForRequests = (path: string, count: number): Promise<Received[]> =>
  vi.waitFor(async () => {
    const requests = await receivedAt(path);
    expect(requests).toHaveLength(count);
    return requests;
  }, deliveryWait);

/** Waits until the receiver has got exactly one request at a path, and returns the request. */
export async function waitForRequest(path: string): Promise<Received> {
  const [request] = await waitForRequests(path, 1);
  if (!request) throw new Error(`the receiver got no request at ${path}`);
  return request;
}

/** Makes the next attempt of a delivery directly, without the queue. `overrides` replaces parts of the context of `deliver`. */
export const attemptDelivery = (deliveryId: string, overrides: Partial<DeliveryContext> = {}): Promise<void> =>
  deliver(
    {
      db,
      fetch: (input, init) => fetch(input, init),
      now: Date.now,
      random: Math.random,
      encryption: encryptionSecrets(env),
      urls: { isLocal: true, ownHosts: [] },
      enqueue: () => {},
      ...overrides,
    },
    deliveryId,
  );

/** Reads a value repeatedly until the value meets a condition. Returns the value. Throws after twenty seconds, or after the time that `wait` says. */
export const until = <Value>(
  read: () => Promise<Value>,
  meetsCondition: (value: Value) => boolean,
  wait: typeof deliveryWait = deliveryWait,
): Promise<Value> =>
  vi.waitFor(async () => {
    const value = await read();
    if (!meetsCondition(value)) throw new Error(`The value never met the condition: ${JSON.stringify(value)?.slice(0, 2000)}`);
    return value;
  }, wait);

/**
 * Creates a webhook whose URL is a path of the receiver. The webhook subscribes to all event types unless `body` sets `event_types`. The receiver counts
 * as a host that has answered before.
 */
export async function register(key: string, body: object = {}, path = newPath()) {
  const { status, body: webhook } = await call("POST", "/api/v1/webhooks", {
    key,
    body: { url: receiver + path, event_types: ["*"], ...body },
  });
  expect(status).toBe(201);
  await markAnswered(webhook.id);
  return { ...webhook, path } as { id: string; secret: string; path: string };
}

/** Verifies the signature of a request. Returns the body of the request. Throws if the signature does not match the secret. */
export const verifyRequest = (secret: string, { body, headers }: Received) =>
  new Webhook(secret).verify(body, headers) as Record<string, unknown>;

/** Returns the deliveries of a webhook, newest first. `query` filters them. */
export const deliveriesOf = async ({ key }: Tenant, webhookId: string, query = "") =>
  (await call("GET", `/api/v1/webhooks/${webhookId}/deliveries${query}`, { key })).body.data;

/** Returns a delivery with its attempts. */
export const readDelivery = async ({ key }: Pick<Tenant, "key">, deliveryId: string) =>
  (await call("GET", `/api/v1/deliveries/${deliveryId}`, { key })).body;

/** The type of the events that tests deliver. An event of the type `webhook.test` has only one attempt. */
export const sampleType = "task.deleted";

/** Returns an event that an account could have. */
export function sampleEvent(accountId: string, now = Date.now()): Event {
  const kind = eventCatalogue.find(sampleType);
  if (!kind) throw new Error(`there are no events of the type ${sampleType}`);
  return newExampleEvent(kind, { accountId, now });
}

/**
 * Creates a webhook whose URL is a path of the receiver. Creates a due delivery of an event to the webhook. The delivery is not in the
 * queue, so only the test or the sweep attempts the delivery.
 */
export async function makeDueDelivery(tenant: Tenant, path = newPath()) {
  const { id } = await register(tenant.key, { event_types: [sampleType] }, path);
  await commitEvents({ db }, [sampleEvent(tenant.accountId)]);
  const [delivery] = await deliveriesOf(tenant, id);
  expect(delivery.attempts_made).toBe(0);
  return { webhookId: id, path, deliveryId: delivery.id as string };
}

/** Waits until exactly `count` attempts of a delivery are recorded. Returns the delivery. */
export const waitForAttempts = (tenant: Pick<Tenant, "key">, deliveryId: string, count: number) =>
  vi.waitFor(async () => {
    const delivery = await readDelivery(tenant, deliveryId);
    expect(delivery.attempts).toHaveLength(count);
    return delivery;
  }, deliveryWait);
