import { and, asc, desc, eq, gt, gte, lt, lte, or, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { events } from "../db/areas/events/tables.ts";
import { isOneOf } from "../db/is-one-of.ts";
import { type Page, pageFrom, scannedAtOnce } from "../db/page.ts";
import { Failure } from "../lib/errors/failure.ts";
import type { Event } from "./event.ts";

export type SequencedEvent = Event & { sequence: number };

export type EventOrder = "asc" | "desc";

/**
 * Lists the account's events of the given types, starting after the sequence number `after`. The order is newest first, unless `order` is
 * `asc`. In `asc` order, a client can continue after its last event without missing any events, even those that were stored late. A page
 * scans at most 2,000 events.
 */
export async function listEvents(
  { db, actor }: ReadContext,
  { types, order, after, limit }: { types: readonly string[]; order: EventOrder; after?: number | undefined; limit: number },
): Promise<Page<SequencedEvent, number>> {
  const [isAfter, isUpTo, sorted] = order === "asc" ? [gt, lte, asc] : [lt, gte, desc];
  const range = and(eq(events.accountId, actor.accountId), after === undefined ? undefined : isAfter(events.sequence, after));
  const last = db
    .select({ sequence: events.sequence })
    .from(events)
    .where(range)
    .orderBy(sorted(events.sequence))
    .limit(1)
    .offset(scannedAtOnce - 1);
  const ofTypes = and(range, isOneOf(events.type, types), or(sql`(${last}) IS NULL`, isUpTo(events.sequence, sql`(${last})`)));
  const [found, [lastScanned]] = await db.batch([
    db
      .select()
      .from(events)
      .where(ofTypes)
      .orderBy(sorted(events.sequence))
      .limit(limit + 1),
    last,
  ]);
  return pageFrom(found, limit, ({ sequence }) => sequence, lastScanned?.sequence);
}

/** Returns one event of the account. Throws `not_found` if the event does not exist. */
export async function readEvent({ db, actor }: ReadContext, id: string): Promise<Event> {
  const [event] = await db
    .select()
    .from(events)
    .where(and(eq(events.accountId, actor.accountId), eq(events.id, id)));
  if (!event) throw new Failure("not_found", "There is no such event.");
  return event;
}
