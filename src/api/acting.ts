import type { Actor, LogReading, Reading } from "../accounts/actor.ts";
import { firstStore } from "../activity/databases.ts";
import { connect } from "../db/client.ts";
import { originOf } from "../http/client-address.ts";
import { principalOf } from "../http/context.ts";
import { type Acting, keyContext, logContext, outboxFor, readContext, webhookContext, writeContext } from "../http/contexts.ts";
import { actingKey } from "../keys/acting-key.ts";
import type { Refresh } from "../usage/refresh-roll-ups.ts";
import type { Commit, Outbox, Writing } from "../webhooks/outbox.ts";
import type { WebhookWriting } from "../webhooks/write-webhooks.ts";
import type { ApiContext } from "./context.ts";

// What verbs take besides their input, for a request of a key. A write holds only while its key still may make it.

/** The account and key that an admitted request acts for. */
export function actorOf(c: ApiContext): Actor {
  const { keyId, admission } = principalOf(c);
  return { accountId: admission.key.accountId, by: { type: "key", id: keyId }, from: originOf(c) };
}

/** What the key in use may do. */
export const scopesOf = (c: ApiContext): readonly string[] => principalOf(c).admission.key.scopes;

function actingOf(c: ApiContext): Acting {
  const { keyId, admission } = principalOf(c);
  return {
    actor: actorOf(c),
    store: admission.key.activityStore ?? firstStore,
    authority: actingKey(connect(c.env.DB), { keyId, scope: c.get("policy")?.scope ?? null }),
    scopes: admission.key.scopes,
  };
}

export const reading = (c: ApiContext): Reading => readContext(c, { actor: actorOf(c) });
export const readingLog = (c: ApiContext): LogReading & { refresh: Refresh } => logContext(c, actingOf(c));
export const outboxOf = (c: ApiContext): Outbox => outboxFor(c, actingOf(c).authority);
export const writing = (c: ApiContext): Writing => writeContext(c, actingOf(c));
export const keyWriting = (c: ApiContext, commit?: Commit) => keyContext(c, actingOf(c), commit);
export const webhookWriting = (c: ApiContext, commit?: Commit): WebhookWriting => webhookContext(c, actingOf(c), commit);
