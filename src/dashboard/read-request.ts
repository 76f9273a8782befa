import { type ReadEntry, readEntry } from "../activity/read-activity.ts";
import { listAudit, type ReadAuditEntry } from "../audit/audit.ts";
import { eventCatalogue } from "../events/catalogue.ts";
import type { Event } from "../events/event.ts";
import { urlOf } from "../http/request-url.ts";
import { timeOfId } from "../ids/ids.ts";
import { type Operation, operationsIn, readOpenApi } from "../openapi/document.ts";
import { minuteMs } from "../time/clock.ts";
import { readEventsOfRequest } from "../webhooks/events-of-request.ts";
import { type Attempt, type Delivery, readDelivery } from "../webhooks/read-deliveries.ts";
import type { PageContext } from "./context.ts";
import { logContext, webhookContext } from "./operation-contexts.ts";
import { visitorMay } from "./permissions.tsx";

const aroundMs = 10 * minuteMs;
const maxAround = 10;
/** The deliveries whose attempts are in the trace. */
const maxDeliveries = 10;

/** A delivery with its attempts, oldest first. */
export type MadeDelivery = Delivery & { attempts: Attempt[] };

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
  return { entry, operation, caused: withDeliveries, changes: changes.rows };
}

function isReadable(c: PageContext, eventType: string): boolean {
  try {
    eventCatalogue.requireReadable([eventType], webhookContext(c).scopes);
    return true;
  } catch {
    return false;
  }
}
