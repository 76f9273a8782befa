import { type ActivityReadContext, listActivity, type ReadEntry, readEntry } from "../activity/read-activity.ts";
import { listAudit, type ReadAuditEntry } from "../audit/audit.ts";
import { eventCatalogue } from "../events/catalogue.ts";
import type { Event } from "../events/event.ts";
import { urlOf } from "../http/request-url.ts";
import { timeOfId } from "../ids/ids.ts";
import { type Operation, operationsIn, readOpenApi } from "../openapi/document.ts";
import { dayMs, hourMs, minuteMs, secondMs } from "../time/clock.ts";
import { readEventsOfRequest } from "../webhooks/events-of-request.ts";
import { type Attempt, type Delivery, readDelivery } from "../webhooks/read-deliveries.ts";
import { listWebhooks } from "../webhooks/read-webhooks.ts";
import { maxWebhooks } from "../webhooks/write-webhooks.ts";
import type { PageContext } from "./context.ts";
import { logContext, webhookContext } from "./operation-contexts.ts";
import { visitorMay } from "./permissions.tsx";

const aroundMs = 10 * minuteMs;
const maxAround = 10;
/** The deliveries whose attempts are in the trace. */
const maxDeliveries = 10;

/** A delivery with its attempts, oldest first. `webhookUrl`: the URL of its webhook, or null if the webhook was deleted. */
export type MadeDelivery = Delivery & { attempts: Attempt[]; webhookUrl: string | null };

/** A request with what it caused. `changes`: changes of its key within ten minutes. `operation`: its operation in the OpenAPI document. */
export interface RequestDetails {
  entry: ReadEntry;
  operation: Operation | undefined;
  caused: { event: Event; deliveryIds: string[]; deliveries: MadeDelivery[] }[];
  changes: ReadAuditEntry[];
}

/** Reads a request and what it caused. Throws `not_found`. */
export async function readRequestDetails(c: PageContext, id: string): Promise<RequestDetails> {
  const context = logContext(c);
  const entry = await readEntry(context, id);
  const operation = operationsIn(await readOpenApi(c.env, urlOf(c))).find(
    ({ method, path }) => method.toUpperCase() === entry.method.replace("HEAD", "GET") && path === entry.route,
  )?.operation;
  const at = timeOfId(entry.id);
  const [caused, changes] = await Promise.all([
    readEventsOfRequest(context, entry.id),
    visitorMay(c, "audit")
      ? listAudit(context, { filter: { target: entry.keyId, from: at - aroundMs, to: at + aroundMs }, limit: maxAround })
      : { rows: [] },
  ]);
  let left = maxDeliveries;
  const withDeliveries = await Promise.all(
    caused.map(async ({ event, deliveryIds }) => {
      // A delivery contains the response of the receiver, which may repeat the event. Reading a delivery therefore needs the scope of its event.
      const ids = isReadable(c, event.type) ? deliveryIds.slice(0, left) : [];
      left -= ids.length;
      return { event, deliveryIds, deliveries: await Promise.all(ids.map((each) => readDelivery(context, each))) };
    }),
  );
  const webhooks = left < maxDeliveries ? await listWebhooks(context, { limit: maxWebhooks }) : [];
  const urls = new Map(webhooks.map(({ id: webhookId, url }) => [webhookId, url]));
  const made = withDeliveries.map(({ deliveries, ...each }) => ({
    ...each,
    deliveries: deliveries.map((delivery) => ({ ...delivery, webhookUrl: urls.get(delivery.webhookId) ?? null })),
  }));
  return { entry, operation, caused: made, changes: changes.rows };
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

function isReadable(c: PageContext, eventType: string): boolean {
  try {
    eventCatalogue.requireReadable([eventType], webhookContext(c).scopes);
    return true;
  } catch {
    return false;
  }
}
