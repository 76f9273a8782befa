import { and, asc, eq, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { memberships } from "../../accounts/memberships.ts";
import { webhooks } from "../../db/areas/webhooks/tables.ts";
import type { Webhook } from "./webhook.ts";

/**
 * Lists the webhooks that a member changed, oldest first. A change is the creation, update or enabling of a webhook, or the rotation of its
 * secret.
 */
export const listWebhooksOfMember = async ({ db, actor: { accountId } }: ReadContext, memberId: string): Promise<Webhook[]> =>
  db
    .select()
    .from(webhooks)
    .where(
      and(
        eq(webhooks.accountId, accountId),
        sql`id IN (SELECT target_id FROM audit WHERE account_id = ${accountId} AND actor_id IN (${memberships(accountId, memberId)})
          AND action IN ('webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.enabled'))`,
      ),
    )
    .orderBy(asc(webhooks.createdAt), asc(webhooks.id));
