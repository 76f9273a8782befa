import { insertAccount, newAccount, updateAccount } from "../src/accounts/account.ts";
import { operatorOn } from "../src/accounts/actor.ts";
import type { SigningSecret } from "../src/credentials/key-format.ts";
import type { Db } from "../src/db/client.ts";
import { servesSamples } from "../src/db/registry/manifests.ts";
import { createKey } from "../src/keys/create-key.ts";
import { type Scope, scopes } from "../src/keys/scopes.ts";
import { dayMs, hourMs, hourStart } from "../src/lib/time/clock.ts";
import { firstLogWriter } from "../src/log/databases.ts";
import { storeHistory } from "../src/log/writer/store-history.ts";
import type { WriteContext } from "../src/outbox/outbox.ts";
import { commitTo } from "../src/outbox/outbox.ts";
import type { WebhookContext } from "../src/webhooks/subscriptions/write-webhooks.ts";
import { randomFrom } from "./seed-random.ts";
import { seedResources } from "./seed-resources.ts";
import { type SeedClients, seedTraffic } from "./seed-traffic.ts";
import { seedDeliveries, seedWebhooks } from "./seed-webhooks.ts";

const days = 60;
const seedValue = 20_260;

/** Returns those of the given scopes that exist in this project. */
const only = (...names: string[]) => scopes.filter((scope) => names.includes(scope));

/** Creates an account without sample data. Returns the secret of its only key, which has every scope. */
export async function seedEmpty({ db, signing, now }: { db: Db; signing: SigningSecret; now: number }): Promise<string> {
  const account = newAccount(now, { name: "My account", email: "owner@example.com", logWriter: firstLogWriter });
  await insertAccount(db, account);
  const context = { db, now, actor: operatorOn(account.id), commit: commitTo({ db }), signing: () => signing };
  return (await createKey(context, { name: "First key", scopes: [...scopes] })).secretKey;
}

/**
 * Creates the demo account with the same code that the Worker uses. The account has keys, webhooks, users and tasks. Its request log covers
 * sixty days and ends with the last full hour before `now`. Returns the secret of the demo key. This key has every scope and has made no
 * requests.
 */
export async function seedDemo({
  db,
  activity,
  signing,
  encryption,
  now,
}: {
  db: Db;
  activity: Db;
  signing: SigningSecret;
  encryption: WebhookContext["encryption"];
  now: number;
}): Promise<string> {
  const random = randomFrom(seedValue);
  const startsAt = now - days * dayMs;
  const account = newAccount(startsAt, { name: "Northwind Robotics", email: "ops@northwind.example", logWriter: firstLogWriter });
  await insertAccount(db, account);
  const at = (time: number): WriteContext => ({ db, now: time, actor: operatorOn(account.id), commit: commitTo({ db }) });
  const key = (name: string, given: readonly Scope[], hourlyLimit: number, madeAt: number, expiresAt: number | null = null) =>
    createKey({ ...at(madeAt), signing: () => signing }, { name, scopes: [...given], hourlyLimit, expiresAt });

  const backend = await key("Production backend", scopes, 5000, startsAt);
  const mobile = await key("Mobile app", only("users:read", "tasks:read", "tasks:write"), 2000, startsAt + hourMs);
  const nightly = await key("Nightly export", only("users:read", "tasks:read", "analytics:read"), 500, startsAt + 2 * hourMs);
  const partner = await key("Partner integration", only("users:read", "tasks:read"), 300, startsAt + 3 * hourMs, now + 5 * dayMs);
  const clients: SeedClients = [
    [backend.key, 62],
    [mobile.key, 27],
    [nightly.key, 9],
    [partner.key, 2],
  ];
  const demo = await key("Demo key", scopes, 5000, now);

  const webhookContext = (time: number): WebhookContext => ({
    ...at(time),
    scopes: null,
    encryption,
    urls: { ownHosts: [], isLocal: true },
  });
  const webhooks = await seedWebhooks(webhookContext, now);
  const by = (time: number, requestId: string): WriteContext => ({
    ...at(time),
    actor: { ...operatorOn(account.id), by: { type: "key", id: backend.key.id } },
    commit: commitTo({ db, requestId }),
  });
  const written = servesSamples ? await seedResources(random, by, startsAt, hourStart(now)) : [];
  await seedDeliveries(db, random, webhooks, now);
  await storeHistory(activity, firstLogWriter, seedTraffic({ random, accountId: account.id, clients }, written, startsAt, now), now);
  await updateAccount(db, account.id, { sampleUntil: now });
  return demo.secretKey;
}
