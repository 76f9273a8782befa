import { type Operation, operationsIn, readOpenApi } from "../../../api/openapi/document.ts";
import { urlOf } from "../../../http/request-url.ts";
import type { KeyRow } from "../../../keys/key.ts";
import { readKeyRow } from "../../../keys/read-keys.ts";
import { orNull } from "../../../lib/errors/failure.ts";
import { timeOfId } from "../../../lib/ids.ts";
import { minuteMs } from "../../../lib/time/clock.ts";
import { type ReadEntry, readEntry } from "../../../log/read/read-activity.ts";
import { listAudit, type ReadAuditEntry } from "../../../outbox/audit.ts";
import type { Event } from "../../../outbox/event.ts";
import { readEventsOfRequest } from "../../../webhooks/deliveries/events-of-request.ts";
import { readWithRepetitions, type WithAttempts } from "../../../webhooks/deliveries/read-deliveries.ts";
import { listWebhooks } from "../../../webhooks/subscriptions/read-webhooks.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { maxWebhooks } from "../../../webhooks/subscriptions/write-webhooks.ts";
import { mayReadEvents, visitorMay } from "../../access/permissions.tsx";
import type { PageContext } from "../../context.ts";
import { contextOf } from "../../operation-contexts.ts";

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
  const context = contextOf(c);
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
