import type { Actor, LogReading, Reading } from "../accounts/actor.ts";
import { connectToStore, firstStore } from "../activity/databases.ts";
import { refreshBy } from "../activity/writers.ts";
import { connect } from "../db/client.ts";
import { originOf } from "../http/client-address.ts";
import { principalOf } from "../http/context.ts";
import { actingKey } from "../keys/acting-key.ts";
import type { Refresh } from "../usage/refresh-roll-ups.ts";
import { enqueueVia } from "../webhooks/enqueue.ts";
import { commitTo, type EnqueueDeliveries, type Outbox, type Writing } from "../webhooks/outbox.ts";
import { sealingSecrets } from "../webhooks/sealing.ts";
import { ownHosts } from "../webhooks/url-rules.ts";
import type { WebhookWriting } from "../webhooks/write-webhooks.ts";
import type { ApiContext } from "./context.ts";

// What verbs take besides their input: on whose behalf, on which data, at what time.

/** The account and key that an admitted request acts for. */
export function actorOf(c: ApiContext): Actor {
  const { keyId, admission } = principalOf(c);
  return { accountId: admission.key.accountId, by: { type: "key", id: keyId }, from: originOf(c) };
}

/** What the key in use may do. */
export const scopesOf = (c: ApiContext): readonly string[] => principalOf(c).admission.key.scopes;

/** What verbs that read take. */
export const reading = (c: ApiContext): Reading => ({ db: connect(c.env.DB), actor: actorOf(c), now: Date.now() });

/** What verbs take that read the log, or usage: that of the account's own activity database. */
export function readingLog(c: ApiContext): LogReading & { refresh: Refresh } {
  const { activityStore = firstStore } = principalOf(c).admission.key;
  return { ...reading(c), activity: connectToStore(c.env, activityStore), refresh: refreshBy(c.env, activityStore) };
}

/** Enqueues deliveries once the response has gone. */
export const enqueueAfter = (c: ApiContext): EnqueueDeliveries => enqueueVia(c.env.DELIVERIES, (work) => c.executionCtx.waitUntil(work));

/** Where a request writes: on the condition that its key still may. */
export function outboxOf(c: ApiContext): Outbox {
  const db = connect(c.env.DB);
  const authority = actingKey(db, { keyId: principalOf(c).keyId, scope: c.get("policy")?.scope ?? null });
  return { db, enqueue: enqueueAfter(c), authority, requestId: c.get("requestId") };
}

/** What verbs that write take, where nothing is to be stored with their change. */
export const writing = (c: ApiContext): Writing => ({ ...reading(c), commit: commitTo(outboxOf(c)) });

/** What verbs that change webhooks take. `written`: with the commit that is to be used. */
export const webhookWriting = (c: ApiContext, written: Writing): WebhookWriting => ({
  ...written,
  scopes: scopesOf(c),
  sealing: sealingSecrets(c.env),
  urls: { ownHosts: ownHosts(c.env.PUBLIC_ORIGIN), isLocal: c.get("isLocal") },
});
