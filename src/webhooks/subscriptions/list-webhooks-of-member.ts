import { and, asc, eq, inArray, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { webhooks } from "../../db/areas/webhooks/tables.ts";
import { knownTo } from "../../identity/audit/known-to.ts";
import type { Webhook } from "./webhook.ts";

/**
 * Returns a SELECT statement for the ids of webhooks that a member changed. A change is the creation, update or enabling of a webhook, or
 * the rotation of its secret. The ids include webhooks that were changed with a key whose secret the member may know.
 */
export const webhooksOfMember = (accountId: string, memberId: string): SQL =>
  sql`(${knownTo(accountId, memberId)} SELECT audit.target_id FROM known CROSS JOIN audit ON audit.account_id = ${accountId}
    AND audit.actor_id = known.id AND action IN ('webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.enabled'))`;

/** Lists the webhooks that `webhooksOfMember` selects, oldest first. */
export const listWebhooksOfMember = async ({ db, actor: { accountId } }: ReadContext, memberId: string): Promise<Webhook[]> =>
  db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.accountId, accountId), inArray(webhooks.id, webhooksOfMember(accountId, memberId))))
    .orderBy(asc(webhooks.createdAt), asc(webhooks.id));
