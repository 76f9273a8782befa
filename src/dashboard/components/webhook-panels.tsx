import { eventCatalogue } from "../../outbox/catalogue.ts";
import { percent } from "../../usage/percent.ts";
import { type Attempt, type Delivery, deliveryStatuses } from "../../webhooks/deliveries/read-deliveries.ts";
import type { WebhookHealth } from "../../webhooks/subscriptions/health.ts";
import type { Webhook } from "../../webhooks/subscriptions/webhook.ts";
import { counted, milliseconds, rate } from "../format.ts";
import { DeliveryTable } from "./delivery-table.tsx";
import { Fact } from "./fact.tsx";
import { ButtonLink, Options } from "./fields.tsx";
import { Empty } from "./notice.tsx";
import { WebhookState, webhookStatus } from "./status.tsx";
import { Tabs } from "./tabs.tsx";
import { Age, Ahead, Moment } from "./time.tsx";

/** Renders the health of a webhook on one line. */
export const WebhookFacts = ({ webhook, health, now }: { webhook: Webhook; health: WebhookHealth; now: number }) => (
  <section class="panel" aria-label="Health of the webhook" id="webhook-facts" data-refresh>
    <dl class="summary">
      <Fact name="Status">
        <WebhookState status={webhookStatus(webhook, health)} />
      </Fact>
      <Fact name="Success rate">
        {rate(health.attempts === 0 ? null : percent(health.succeeded, health.attempts))}{" "}
        <span class="quiet">of the latest {counted(health.attempts, "attempt")}</span>
      </Fact>
      <Fact name="p95">{milliseconds(health.p95Ms)}</Fact>
      <Fact name="Backlog">
        {counted(health.waiting, "delivery", "deliveries")}
        {health.oldestWaitingAt !== null && (
          <span class="quiet">
            , the oldest from <Age timeMs={health.oldestWaitingAt} now={now} />
          </span>
        )}
      </Fact>
      <Fact name="Events">{webhook.eventTypes.includes("*") ? "all" : counted(webhook.eventTypes.length, "type")}</Fact>
    </dl>
  </section>
);

export const WebhookSettings = ({ webhook, now }: { webhook: Webhook; now: number }) => (
  <section class="panel" aria-labelledby="facts">
    <h2 id="facts">The webhook</h2>
    <dl class="facts">
      <Fact name="Id">
        <code class="break">{webhook.id}</code>
      </Fact>
      <Fact name="Created">
        <Moment timeMs={webhook.createdAt} />
      </Fact>
      {webhook.description && (
        <Fact name="Description">
          <bdi>{webhook.description}</bdi>
        </Fact>
      )}
      <Fact name="Events" class="scopes">
        {webhook.eventTypes.map((type) => (
          <code>{type}</code>
        ))}
      </Fact>
      {webhook.overlapEndsAt !== null && webhook.overlapEndsAt > now && (
        <Fact name="Previous secret">
          also signs requests, and expires <Ahead timeMs={webhook.overlapEndsAt} now={now} />
        </Fact>
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
            <ButtonLink href={query({}).replace(webhook.id, `${webhook.id}/redeliver`)}>Redeliver all</ButtonLink>
          </p>
        )}
      </header>
      <Tabs
        kind="filters"
        label="Deliveries by status"
        here={filter.status ?? "all"}
        tabs={[["all", query({ status: undefined })], ...deliveryStatuses.map((each) => [each, query({ status: each })] as const)]}
      >
        <form class="inline" method="get" action={`/webhooks/${webhook.id}`}>
          {filter.status && <input type="hidden" name="status" value={filter.status} />}
          <label class="unseen" for="event_type">
            Type of event
          </label>
          <select id="event_type" name="event_type">
            <Options of={[["", "every type"], ...eventCatalogue.types]} chosen={filter.eventType} />
          </select>
          <button type="submit">Filter</button>
        </form>
      </Tabs>
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
