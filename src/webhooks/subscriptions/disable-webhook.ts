import { and, eq, sql } from "drizzle-orm";
import { webhooks } from "../../db/areas/webhooks/tables.ts";
import type { Db } from "../../db/client.ts";
import { nextVersion, wrote } from "../../db/optimistic-locking.ts";
import type { EnqueueDeliveries } from "../../outbox/enqueue.ts";
import { commitChange } from "../../outbox/outbox.ts";
import { settleFirst } from "../deliveries/settle.ts";
import { webhookDisabled } from "./events.ts";
import type { Webhook } from "./webhook.ts";

/**
 * Disables a webhook, holds its waiting deliveries and creates a `webhook.disabled` event. If the webhook's URL has changed since the
 * attempt, does nothing. If `failingSince` is given and differs from the stored value, does nothing. Returns whether the webhook was
 * disabled.
 */
export async function disableWebhook(
  { db, now, enqueue }: { db: Db; now: () => number; enqueue: EnqueueDeliveries },
  webhook: Webhook,
  disabledReason: string,
  { failingSince = null }: { failingSince?: number | null } = {},
): Promise<boolean> {
  const at = now();
  const after: Webhook = { ...webhook, state: "disabled", disabledReason, ...nextVersion(webhook, at) };
  const isStill = and(
    eq(webhooks.accountId, webhook.accountId),
    eq(webhooks.id, webhook.id),
    eq(webhooks.state, "active"),
    eq(webhooks.url, webhook.url),
    failingSince === null ? undefined : eq(webhooks.failingSince, failingSince),
  );
  const when = sql`EXISTS (SELECT 1 FROM webhooks WHERE ${isStill})`;
  const { disabled } = await commitChange(
    { db, enqueue },
    {
      whenFull: "write",
      events: [webhookDisabled(after, at)],
      statements: {
        settling: settleFirst(db, webhook, "held", at, when),
        disabled: db
          .update(webhooks)
          .set({ state: after.state, disabledReason, revision: after.revision, updatedAt: after.updatedAt })
          .where(isStill)
          .returning({ id: webhooks.id }),
      },
      when,
    },
  );
  return wrote(disabled);
}
