import { and, desc, eq, lt } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { webhooks } from "../../db/areas/webhooks/tables.ts";
import { Failure } from "../../lib/errors/failure.ts";
import type { Webhook } from "./webhook.ts";

/** Lists webhooks of the account, newest first. If `after` is set, the list starts after the webhook with this id. */
export function listWebhooks(
  { db, actor }: ReadContext,
  { after, limit }: { after?: string | undefined; limit: number },
): Promise<Webhook[]> {
  return db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.accountId, actor.accountId), after === undefined ? undefined : lt(webhooks.id, after)))
    .orderBy(desc(webhooks.id))
    .limit(limit);
}

/** Returns one webhook of the account. Throws `not_found` if the webhook does not exist. */
export async function readWebhook({ db, actor }: ReadContext, id: string): Promise<Webhook> {
  const [webhook] = await db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.accountId, actor.accountId), eq(webhooks.id, id)));
  if (!webhook) throw new Failure("not_found", "There is no such webhook.");
  return webhook;
}
