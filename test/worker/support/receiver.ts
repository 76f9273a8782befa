import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { expect, inject } from "vitest";
import type { Received } from "../../../scripts/receiving.ts";
import { encryptionSecrets } from "../../../src/webhooks/encryption.ts";
import { call, db, type Tenant } from "./client.ts";

export const receiver = inject("receiver");

/** A path of the receiver that nobody else uses. */
export const newPath = (behaviour = "take") => `/${behaviour}/${crypto.randomUUID()}`;

export const receivedAt = async (path: string): Promise<Received[]> => (await fetch(`${receiver}/received?path=${path}`)).json();

/** Returns what `deliver` needs to make an attempt here and now. `more` replaces parts of it. */
export const delivering = (more: object = {}) => ({
  db,
  fetch: (input: RequestInfo | URL, init?: RequestInit) => fetch(input, init),
  now: Date.now,
  random: Math.random,
  encryption: encryptionSecrets(env),
  urls: { isLocal: true, ownHosts: [] },
  enqueue: () => {},
  ...more,
});

/** Repeats a look until it shows what is wanted, for eight seconds. */
export async function until<Seen>(look: () => Promise<Seen>, isWanted: (seen: Seen) => boolean): Promise<Seen> {
  const giveUpAt = Date.now() + 8000;
  for (;;) {
    const seen = await look();
    if (isWanted(seen) || Date.now() > giveUpAt) return seen;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** Registers a path of the receiver. */
export async function register(key: string, body: object = {}, path = newPath()) {
  const { status, body: webhook } = await call("POST", "/api/v1/webhooks", {
    key,
    body: { url: receiver + path, event_types: ["*"], ...body },
  });
  expect(status).toBe(201);
  return { ...webhook, path } as { id: string; secret: string; path: string };
}

/** What a request says, once its signature has been verified. */
export const verified = (secret: string, { body, headers }: Received) =>
  new Webhook(secret).verify(body, headers) as Record<string, unknown>;

export const deliveriesOf = async ({ key }: Tenant, webhookId: string, query = "") =>
  (await call("GET", `/api/v1/webhooks/${webhookId}/deliveries${query}`, { key })).body.data;
