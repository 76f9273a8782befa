import { and, asc, eq, inArray, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { knownTo } from "../audit/known-to.ts";
import { webhooks } from "../db/schema-main.ts";
import type { Webhook } from "./webhook.ts";

/** Returns the webhooks that a member, or a key that they know, made, changed, enabled or gave a new secret: oldest first. */
export async function listWebhooksOfMember({ db, actor: { accountId } }: Reading, memberId: string): Promise<Webhook[]> {
  const touched = sql`(${knownTo(accountId, memberId)} SELECT audit.target_id FROM known CROSS JOIN audit ON audit.account_id = ${accountId}
    AND audit.actor_id = known.id AND action IN ('webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.enabled'))`;
  return db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.accountId, accountId), inArray(webhooks.id, touched)))
    .orderBy(asc(webhooks.createdAt), asc(webhooks.id));
}
