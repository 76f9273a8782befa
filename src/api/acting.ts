import type { Actor, LogReadContext, ReadContext } from "../accounts/actor.ts";
import { firstStore } from "../activity/databases.ts";
import { connect } from "../db/client.ts";
import { originOf } from "../http/client-address.ts";
import { principalOf } from "../http/context.ts";
import * as contexts from "../http/contexts.ts";
import { actingKey } from "../keys/acting-key.ts";
import type { Refresh } from "../usage/refresh-roll-ups.ts";
import type { Commit, Outbox, WriteContext } from "../webhooks/outbox.ts";
import type { WebhookContext } from "../webhooks/write-webhooks.ts";
import type { ApiContext } from "./context.ts";

// What verbs take besides their input, for a request of a key. A write holds only while its key still may make it.

/** The account and key that an admitted request acts for. */
export function actorOf(c: ApiContext): Actor {
  const { keyId, admission } = principalOf(c);
  return { accountId: admission.key.accountId, by: { type: "key", id: keyId }, from: originOf(c) };
}

/** What the key in use may do. */
export const scopesOf = (c: ApiContext): readonly string[] => principalOf(c).admission.key.scopes;

function actingOf(c: ApiContext): contexts.Acting {
  const { keyId, admission } = principalOf(c);
  return {
    actor: actorOf(c),
    store: admission.key.activityStore ?? firstStore,
    authority: actingKey(connect(c.env.DB), { keyId, scope: c.get("policy")?.scope ?? null }),
    scopes: admission.key.scopes,
  };
}

export const readContext = (c: ApiContext): ReadContext => contexts.readContext(c, { actor: actorOf(c) });
export const logContext = (c: ApiContext): LogReadContext & { refresh: Refresh } => contexts.logContext(c, actingOf(c));
export const outboxOf = (c: ApiContext): Outbox => contexts.outboxFor(c, actingOf(c).authority);
export const writeContext = (c: ApiContext): WriteContext => contexts.writeContext(c, actingOf(c));
export const keyContext = (c: ApiContext, commit?: Commit) => contexts.keyContext(c, actingOf(c), commit);
export const webhookContext = (c: ApiContext, commit?: Commit): WebhookContext => contexts.webhookContext(c, actingOf(c), commit);
