import { type ActivityReadContext, listActivity, type ReadEntry, readEntry } from "../activity/read-activity.ts";
import { listAudit, type ReadAuditEntry } from "../audit/audit.ts";
import { orNull } from "../errors/failure.ts";
import type { Event } from "../events/event.ts";
import { urlOf } from "../http/request-url.ts";
import { timeOfId } from "../ids/ids.ts";
import type { KeyRow } from "../keys/key.ts";
import { readKeyRow } from "../keys/read-keys.ts";
import { type Operation, operationsIn, readOpenApi } from "../openapi/document.ts";
import { dayMs, hourMs, minuteMs, secondMs } from "../time/clock.ts";
import { readEventsOfRequest } from "../webhooks/events-of-request.ts";
import { readWithRepetitions, type WithAttempts } from "../webhooks/read-deliveries.ts";
import { listWebhooks } from "../webhooks/read-webhooks.ts";
import type { Webhook } from "../webhooks/webhook.ts";
import { maxWebhooks } from "../webhooks/write-webhooks.ts";
import type { PageContext } from "./context.ts";
import { logContext } from "./operation-contexts.ts";
import { mayReadEvents, visitorMay } from "./permissions.tsx";

const aroundMs = 10 * minuteMs;
/** The changes of a key that are looked through for the nearest ones. */
const lookedAround = 100;
const maxAround = 10;
/** The deliveries whose attempts are in the trace. */
const maxDeliveries = 50;

/** A delivery in a trace. `webhook`: its webhook, or null if the webhook was deleted. */
export type MadeDelivery = WithAttempts & { webhook: Webhook | null };

/** An event that a request caused, with the first delivery to each webhook. `webhook`: the webhook, or null if it was deleted. */
export interface CausedEvent {
  event: Event;
  first: { id: string; webhook: Webhook | null }[];
}

/**
 * A request with what it caused. `deliveries`: the latest deliveries of its events, oldest first, with all redeliveries. `olderDeliveries`: the number of
 * deliveries before them. `changes`: the changes of its key that were nearest. `operation`: its operation in the OpenAPI document. `key`: the key as it is now.
 */
export interface RequestDetails {
  entry: ReadEntry;
  key: KeyRow | null;
  operation: Operation | undefined;
  caused: CausedEvent[];
  /** The number of its events that are not in `caused`. */
  otherEvents: number;
  deliveries: MadeDelivery[];
  olderDeliveries: number;
  changes: ReadAuditEntry[];
  /** The number of other changes within ten minutes. */
  otherChanges: number;
}

/** Reads a request and what it caused. Throws `not_found`. */
export async function readRequestDetails(c: PageContext, id: string): Promise<RequestDetails> {
  const context = logContext(c);
  const entry = await readEntry(context, id);
  const operation = operationsIn(await readOpenApi(c.env, urlOf(c))).find(
    ({ method, path }) => method.toUpperCase() === entry.method.replace("HEAD", "GET") && path === entry.route,
  )?.operation;
  const at = timeOfId(entry.id);
  const [{ caused, count: eventCount }, key, { rows: around }] = await Promise.all([
    readEventsOfRequest(context, entry.id),
    readKeyRow(context, entry.keyId).catch(orNull),
    visitorMay(c, "audit")
      ? listAudit(context, { filter: { target: entry.keyId, from: at - aroundMs, to: at + aroundMs }, limit: lookedAround })
      : { rows: [] },
  ]);
  const sent = caused.flatMap(({ first }) => first);
  // A delivery contains the response of the receiver, which may repeat the event. Reading a delivery therefore needs the scope of its event.
  const readable = caused.flatMap(({ event, first }) => (mayReadEvents(c, event.type) ? first.map(({ id: each }) => each) : []));
  const [webhooks, { deliveries, count }] = await Promise.all([
    sent.length === 0 ? [] : listWebhooks(context, { limit: maxWebhooks }),
    readWithRepetitions(context, readable, maxDeliveries),
  ]);
  const distance = ({ id: changeId }: ReadAuditEntry) => Math.abs(timeOfId(changeId) - at);
  const nearest = around.toSorted((a, b) => distance(a) - distance(b)).slice(0, maxAround);
  const webhookOf = ({ webhookId }: { webhookId: string }) => webhooks.find((webhook) => webhook.id === webhookId) ?? null;
  return {
    entry,
    key,
    operation,
    caused: caused.map(({ event, first }) => ({ event, first: first.map((each) => ({ id: each.id, webhook: webhookOf(each) })) })),
    otherEvents: eventCount - caused.length,
    deliveries: deliveries.map((delivery) => ({ ...delivery, webhook: webhookOf(delivery) })),
    olderDeliveries: count - deliveries.length,
    changes: nearest,
    otherChanges: around.length - nearest.length,
  };
}

/** The ids of the requests before and after a request in the log. */
export interface Neighbors {
  newer: string | undefined;
  older: string | undefined;
}

const maxListed = 100;

/** Returns the neighbors of a request. Looks at most a day ahead. If a hundred requests came within a second, skips some of them. */
export async function readNeighbors(context: ActivityReadContext, id: string): Promise<Neighbors> {
  const [newer, { entries }] = await Promise.all([readNewer(context, id), listActivity(context, { filter: {}, after: id, limit: 1 })]);
  return { newer, older: entries[0]?.id };
}

/** The log is read from the newest request on. Therefore looks for the next request in ever longer times. */
async function readNewer(context: ActivityReadContext, id: string): Promise<string | undefined> {
  const from = timeOfId(id);
  for (const spanMs of [secondMs, minuteMs, hourMs, dayMs]) {
    const { entries } = await listActivity(context, { filter: { from, to: from + spanMs }, limit: maxListed });
    const next = entries.findLast((entry) => entry.id > id);
    if (next || from + spanMs > context.now) return next?.id;
  }
  return undefined;
}

/**
 * Returns the entries of one second that stand for several requests. Requests that are denied in the same way in the same second share an entry, which has
 * the id of only one of them.
 */
export async function readSharedEntries(context: ActivityReadContext, id: string): Promise<ReadEntry[]> {
  const from = Math.floor(timeOfId(id) / secondMs) * secondMs;
  const { entries } = await listActivity(context, { filter: { from, to: from + secondMs }, limit: maxListed });
  return entries.filter(({ count }) => count > 1);
}
