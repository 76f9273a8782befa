import { and, count, eq, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { deliveries, redeliveries } from "../../db/areas/webhooks/tables.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import type { WebhookReadContext } from "../subscriptions/write-webhooks.ts";

/**
 * Returns the progress of a redelivery. `sent`: the number of created deliveries that no longer wait for their first attempt. Throws `not_found` if the
 * redelivery does not exist.
 */
export async function readRedelivery({ db, actor }: ReadContext, id: string) {
  const [[row], [waiting]] = await db.batch([
    db
      .select()
      .from(redeliveries)
      .where(and(eq(redeliveries.accountId, actor.accountId), eq(redeliveries.id, id))),
    db
      .select({ count: count() })
      .from(deliveries)
      .where(and(eq(deliveries.redeliveryId, id), sql`redelivery_id IS NOT NULL AND attempts_made = 0 AND status = 'pending'`)),
  ]);
  if (!row) throw new Failure("not_found", "There is no such redelivery.");
  const unattempted = waiting?.count ?? 0;
  const status: "running" | "done" = row.cursor === null && unattempted === 0 ? "done" : "running";
  return { id, count: row.count, sent: row.made - unattempted, status };
}

/** Throws `forbidden` if a redelivery sends events of a type that the acting key may not read. */
export async function authorizeRedeliveries({ db, actor, scopes }: WebhookReadContext, redeliveryId: string): Promise<void> {
  const [row] = await db
    .select({ types: redeliveries.eventTypes })
    .from(redeliveries)
    .where(and(eq(redeliveries.accountId, actor.accountId), eq(redeliveries.id, redeliveryId)));
  eventCatalogue.requireReadable(row?.types ?? [], scopes);
}
