import { listAccounts } from "../accounts/account.ts";
import { type ReadContext, systemOn } from "../accounts/actor.ts";
import { isAtThisMachine } from "../dashboard/access/session.ts";
import type { PageContext } from "../dashboard/context.ts";
import { connect } from "../db/client.ts";
import { statusOf } from "../keys/key.ts";
import { listKeys } from "../keys/read-keys.ts";
import { listActivity } from "../log/read/read-activity.ts";
import { logOf } from "../log/writers.ts";
import { readNewestIds } from "../monitoring/newest-ids.ts";
import { type Delivery, listDeliveries } from "../webhooks/deliveries/read-deliveries.ts";
import { listWebhooks } from "../webhooks/subscriptions/read-webhooks.ts";
import type { Webhook } from "../webhooks/subscriptions/webhook.ts";
import { maxWebhooks } from "../webhooks/subscriptions/write-webhooks.ts";

/** One id of each resource type. The keys are id prefixes, for example `usr`. */
export type OwnIds = Readonly<Record<string, string | undefined>>;

/** The note on the page of an operation if the path of the operation contains an id. */
export const exampleIdNote = "The id is an example. Replace it with the id of one of your own resources.";

/** Matches the example ids in the documentation. All examples of one resource type have the same id. */
const exampleIds = /\b([a-z]{3})_019a1b2c3d4e7f8091a2b3c4d5e6f708\b|\b(key)_4fPq2rT8vX0zB6dH\b/g;

/** Replaces the example ids in a documentation text with the given ids. */
export const withOwnIds = (text: string, ids: OwnIds): string =>
  text
    .replaceAll(exampleIdNote, "")
    .replaceAll(exampleIds, (example, prefix: string | undefined, key: string | undefined) => ids[prefix ?? key ?? ""] ?? example);

const maxKeys = 100;
const maxDeliveries = 10;

/**
 * On a local build, returns ids of the demo account. The samples in the documentation then run without changes. Elsewhere, returns null,
 * because a sample with real ids could delete the reader's data.
 */
export async function readOwnIds(c: PageContext): Promise<OwnIds | null> {
  if (!c.get("isLocal") || !isAtThisMachine(c)) return null;
  const db = connect(c.env.DB);
  const [account] = await listAccounts(db);
  if (!account) return null;
  const context = { db, ...logOf(c.env, account.logWriter), actor: systemOn(account.id), now: Date.now() };
  const [newest, keys, webhooks, { entries }] = await Promise.all([
    readNewestIds(db, account.id),
    listKeys(context, { limit: maxKeys }),
    listWebhooks(context, { limit: maxWebhooks }),
    listActivity(context, { filter: {}, limit: 1 }).catch(() => ({ entries: [] })),
  ]);
  const { webhook, delivery } = await findDelivery(context, webhooks);
  // Choose the active key that was used least recently, but never the demo key.
  const [key] = keys
    .filter((each) => statusOf(each, context.now) === "active" && !c.env.DEMO_API_KEY.includes(each.id.slice("key_".length)))
    .toSorted((a, b) => (a.lastUsedAt ?? 0) - (b.lastUsedAt ?? 0));
  return { ...newest, key: key?.id, whk: webhook?.id, dlv: delivery?.id, req: entries[0]?.id };
}

/**
 * Returns a delivery and its webhook. Prefers a delivery that waits for a retry. If there are no deliveries, returns only the latest
 * webhook.
 */
async function findDelivery(context: ReadContext, webhooks: readonly Webhook[]): Promise<{ webhook?: Webhook; delivery?: Delivery }> {
  const all = await Promise.all(
    webhooks.map(async (webhook) => ({
      webhook,
      deliveries: (await listDeliveries(context, webhook.id, { filter: {}, limit: maxDeliveries })).rows,
    })),
  );
  const found = all.flatMap(({ webhook, deliveries }) => deliveries.map((delivery) => ({ webhook, delivery })));
  const waiting = found.find(({ delivery }) => delivery.status === "pending" && delivery.attemptsMade > 0);
  const [latest] = webhooks;
  return waiting ?? found[0] ?? (latest ? { webhook: latest } : {});
}
