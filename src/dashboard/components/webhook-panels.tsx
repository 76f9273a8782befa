import { eventCatalogue } from "../../outbox/catalogue.ts";
import { percent } from "../../usage/percent.ts";
import { type Attempt, type Delivery, deliveryStatuses } from "../../webhooks/deliveries/read-deliveries.ts";
import type { WebhookHealth } from "../../webhooks/subscriptions/health.ts";
import type { Webhook } from "../../webhooks/subscriptions/webhook.ts";
import { counted, milliseconds, rate } from "../format.ts";
import { DeliveryTable } from "./delivery-table.tsx";
import { Empty } from "./notice.tsx";
import { WebhookState, webhookStatus } from "./status.tsx";
import { Age, Ahead, Moment } from "./time.tsx";

/** Renders the health of a webhook on one line. */
export const WebhookFacts = ({ webhook, health, now }: { webhook: Webhook; health: WebhookHealth; now: number }) => (
  <section class="panel" aria-label="Health of the webhook" id="webhook-facts" data-refresh>
    <dl class="summary">
      <div>
        <dt>Status</dt>
        <dd>
          <WebhookState status={webhookStatus(webhook, health)} />
        </dd>
      </div>
      <div>
        <dt>Success rate</dt>
        <dd>
          {rate(health.attempts === 0 ? null : percent(health.succeeded, health.attempts))}{" "}
          <span class="quiet">of the latest {counted(health.attempts, "attempt")}</span>
        </dd>
      </div>
      <div>
        <dt>p95</dt>
        <dd>{milliseconds(health.p95Ms)}</dd>
      </div>
      <div>
        <dt>Backlog</dt>
        <dd>
          {counted(health.waiting, "delivery", "deliveries")}
          {health.oldestWaitingAt !== null && (
            <span class="quiet">
              , the oldest from <Age timeMs={health.oldestWaitingAt} now={now} />
            </span>
          )}
        </dd>
      </div>
      <div>
        <dt>Events</dt>
        <dd>{webhook.eventTypes.includes("*") ? "all" : counted(webhook.eventTypes.length, "type")}</dd>
      </div>
    </dl>
  </section>
);

export const WebhookSettings = ({ webhook, now }: { webhook: Webhook; now: number }) => (
  <section class="panel" aria-labelledby="facts">
    <h2 id="facts">The webhook</h2>
    <dl class="facts">
      <dt>Id</dt>
      <dd>
        <code class="break">{webhook.id}</code>
      </dd>
      <dt>Created</dt>
      <dd>
        <Moment timeMs={webhook.createdAt} />
      </dd>
      {webhook.description && (
        <>
          <dt>Description</dt>
          <dd>
            <bdi>{webhook.description}</bdi>
          </dd>
        </>
      )}
      <dt>Events</dt>
      <dd class="scopes">
        {webhook.eventTypes.map((type) => (
          <code>{type}</code>
        ))}
      </dd>
      {webhook.overlapEndsAt !== null && webhook.overlapEndsAt > now && (
        <>
          <dt>Previous secret</dt>
          <dd>
            also signs requests, and expires <Ahead timeMs={webhook.overlapEndsAt} now={now} />
          </dd>
        </>
      )}
    </dl>
  </section>
);

interface DeliveriesPanelProps {
  webhook: Webhook;
  health: WebhookHealth;
  /** The values of the filter that the visitor has selected. */
  filter: { status: Delivery["status"] | undefined; eventType: string | undefined };
  deliveries: readonly Delivery[];
  /** The latest attempts, by the id of the delivery. */
  latest: ReadonlyMap<string, Attempt>;
  /** The position of the next page, or null on the last page. */
  next: string | null;
  isFirstPage: boolean;
  /** Whether the visitor may redeliver events. */
  isManageable: boolean;
  /** Whether the visitor may open a delivery of this event type. */
  isReadable: (eventType: string) => boolean;
  now: number;
}

/** Renders a page of the deliveries of a webhook, with their filter. */
export const DeliveriesPanel = ({
  webhook,
  health,
  filter,
  deliveries,
  latest,
  next,
  isFirstPage,
  isManageable,
  isReadable,
  now,
}: DeliveriesPanelProps) => {
  const query = (more: Record<string, string | undefined>) => {
    const all = { status: filter.status, event_type: filter.eventType, ...more };
    const text = new URLSearchParams(Object.entries(all).filter((entry): entry is [string, string] => Boolean(entry[1]))).toString();
    return `/webhooks/${webhook.id}${text && `?${text}`}`;
  };
  return (
    <section class="panel" aria-labelledby="deliveries">
      <header>
        <h2 id="deliveries">Deliveries</h2>
        {webhook.state === "active" && isManageable && (
          <p class="buttons">
            {health.waiting > 0 && (
              <span class="quiet">
                {counted(health.waiting, "delivery is", "deliveries are")} pending. “Redeliver all” sends each event once.
              </span>
            )}
            <a class="button" href={query({}).replace(webhook.id, `${webhook.id}/redeliver`)}>
              Redeliver all
            </a>
          </p>
        )}
      </header>
      <nav class="filters" aria-label="Deliveries by status">
        <a href={query({ status: undefined })} aria-current={filter.status ? undefined : "page"}>
          all
        </a>
        {deliveryStatuses.map((each) => (
          <a href={query({ status: each })} aria-current={each === filter.status ? "page" : undefined}>
            {each}
          </a>
        ))}
        <form class="inline" method="get" action={`/webhooks/${webhook.id}`}>
          {filter.status && <input type="hidden" name="status" value={filter.status} />}
          <label class="unseen" for="event_type">
            Type of event
          </label>
          <select id="event_type" name="event_type">
            <option value="">every type</option>
            {eventCatalogue.types.map((type) => (
              <option value={type} selected={type === filter.eventType}>
                {type}
              </option>
            ))}
          </select>
          <button type="submit">Filter</button>
        </form>
      </nav>
      {deliveries.length === 0 ? (
        <Empty>
          {filter.status || filter.eventType ? (
            <>
              {next === null ? "Nothing matches." : "None of the latest 2,000 entries match. Older entries may match."}{" "}
              {filter.status === "failed" && (
                <>
                  A delivery fails with its last attempt. Until then it is <a href={query({ status: "pending" })}>pending</a>.{" "}
                </>
              )}
              <a href={`/webhooks/${webhook.id}`}>Clear the filter</a>
            </>
          ) : (
            <>Nothing has been sent yet. Send a test event to check the receiver.</>
          )}
        </Empty>
      ) : (
        <div id="latest-deliveries" data-refresh={isFirstPage || undefined}>
          <DeliveryTable deliveries={deliveries} latest={latest} isReadable={isReadable} now={now} />
        </div>
      )}
      {next !== null && (
        <p class="pages">
          <a href={query({ after: next })}>Older</a>
        </p>
      )}
    </section>
  );
};
