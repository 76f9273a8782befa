import { STATUS_CODES } from "node:http";
import type { Child } from "hono/jsx";
import { timeOfId } from "../../lib/ids.ts";
import { iso, minuteMs, secondMs } from "../../lib/time/clock.ts";
import type { ReadEntry } from "../../log/read/read-activity.ts";
import { actorNameOf } from "../../outbox/audit.ts";
import type { Attempt } from "../../webhooks/deliveries/read-deliveries.ts";
import type { Webhook } from "../../webhooks/subscriptions/webhook.ts";
import { counted, integer } from "../format.ts";
import type { CausedEvent, MadeDelivery, RequestDetails } from "../pages/request/read.ts";
import { resultOf } from "./status.tsx";

/** A step of a trace. `atMs`: when it happened. `tone`: how it ended. */
interface Step {
  atMs: number;
  tone: "good" | "warn" | "bad" | "plain";
  text: Child;
}

const marks = { good: "✓", warn: "!", bad: "✕", plain: "◌" } as const;

/** Returns the time of a step after the request, for example "+38 ms". Steps before the request have a minus sign. */
function offset(atMs: number, requestMs: number): string {
  const apart = Math.abs(atMs - requestMs);
  const sign = atMs < requestMs ? "−" : "+";
  if (apart < secondMs) return `${sign}${apart} ms`;
  if (apart < minuteMs) return `${sign}${(apart / secondMs).toFixed(1)} s`;
  return apart < 120 * minuteMs ? `${sign}${Math.round(apart / minuteMs)} min` : `${sign}${Math.round(apart / (60 * minuteMs))} h`;
}

/** Returns the state of the limits after the request, for example "12 of 5,000 per hour used". */
const limitsOf = ({ limits }: ReadEntry): string =>
  (limits ?? [])
    .map(({ name, limit, used }) => `${integer(used)} of ${integer(limit)} per ${name.replace("account-", "")} used`)
    .join(", ");

/** The number of characters of a receiver's response that a trace shows. The page of the delivery shows more. */
const maxAnswer = 160;

/** Renders the URL of a webhook, or says that the webhook was deleted. */
const Receiver = ({ webhook }: { webhook: Webhook | null }) =>
  webhook === null ? <>a webhook that was deleted</> : <bdi class="break">{webhook.url}</bdi>;

/** Renders the URL of an attempt. If the webhook was changed since, the attempt may have gone to another URL. */
const ReceiverOf = ({ made, webhook }: { made: Attempt; webhook: Webhook | null }) => (
  <>
    {webhook !== null && webhook.updatedAt > made.at && "the webhook that now has the URL "}
    <Receiver webhook={webhook} />
  </>
);

/** Returns the links to the first deliveries of an event, each with the URL of its webhook if there are several. */
const firstDeliveries = ({ first }: CausedEvent): Child =>
  first.length === 0 ? (
    <span class="quiet"> for no webhook</span>
  ) : first.length === 1 ? (
    <>
      {" · "}
      <a href={`/deliveries/${first[0]?.id}`}>View delivery</a>
    </>
  ) : (
    <ul>
      {first.map(({ id, webhook }) => (
        <li>
          <a href={`/deliveries/${id}`}>View delivery</a> to <Receiver webhook={webhook} />
        </li>
      ))}
    </ul>
  );

/** `next`: the attempt after it. If the receiver responded with the same again, only the last of these attempts shows the body. */
const attemptStep = (made: Attempt, delivery: MadeDelivery, next: Attempt | undefined): Step => ({
  atMs: made.at,
  tone: made.error === null ? "good" : "bad",
  text: (
    <>
      <a href={`/deliveries/${delivery.id}`}>Delivery attempt</a>
      {" to "}
      <ReceiverOf made={made} webhook={delivery.webhook} />:{" "}
      {made.status === null ? resultOf(made) : `the receiver responded with ${made.status}`} after {integer(made.durationMs)} ms
      {made.error !== null && made.responseBody !== "" && made.responseBody !== next?.responseBody && (
        <>
          {" "}
          <code class="quiet break">
            {made.responseBody.slice(0, maxAnswer)}
            {made.responseBody.length > maxAnswer && "…"}
          </code>
        </>
      )}
      {made.advice && next === undefined && <p class="quiet">{made.advice}</p>}
    </>
  ),
});

/** Returns the steps of a delivery: when it began if it repeats another one, its attempts, and the next one. */
function stepsOfDelivery(delivery: MadeDelivery): Step[] {
  const { id, status, createdAt, heldAt, nextAttemptAt, attempts, webhook } = delivery;
  const steps = attempts.map((made, index) => attemptStep(made, delivery, attempts[index + 1]));
  if (delivery.redeliveryOf !== null || delivery.redeliveryId !== null)
    steps.unshift({
      atMs: createdAt,
      tone: "plain",
      text: (
        <>
          <a href={`/deliveries/${id}`}>Redelivery</a> to <Receiver webhook={webhook} />
        </>
      ),
    });
  if (status === "held") {
    const isDisabled = webhook?.state === "disabled";
    steps.push({
      // A delivery was held from its event on, or else from the moment at which its webhook was disabled.
      atMs: heldAt ?? Math.max(createdAt, attempts.at(-1)?.at ?? 0),
      tone: "warn",
      text: (
        <>
          <a href={`/deliveries/${id}`}>Held</a>, because <Receiver webhook={webhook} /> {isDisabled ? "is" : "was"} disabled
        </>
      ),
    });
  }
  if (status === "pending" && nextAttemptAt !== null)
    steps.push({
      atMs: nextAttemptAt,
      tone: "plain",
      text: (
        <>
          <a href={`/deliveries/${id}`}>Next delivery attempt</a> to <Receiver webhook={webhook} />
        </>
      ),
    });
  return steps;
}

/** Returns the steps of a request in the order of time: admission, response, events, attempts, and changes of its key. */
function stepsOf({ entry, caused, deliveries, changes }: RequestDetails): Step[] {
  const at = timeOfId(entry.id);
  const status = entry.status ?? 0;
  const steps: Step[] = [
    {
      atMs: at,
      tone: entry.admitted ? "good" : "bad",
      text: (
        <>
          {entry.admitted ? "Admitted" : "Refused"}
          {limitsOf(entry) && <span class="quiet">: {limitsOf(entry)}</span>}
        </>
      ),
    },
    // An event belongs to the change that the request made, so it happened before the response.
    ...caused.map(
      (each): Step => ({
        atMs: each.event.createdAt,
        tone: "plain",
        text: (
          <>
            Event <code>{each.event.type}</code>
            {firstDeliveries(each)}
          </>
        ),
      }),
    ),
    ...deliveries.flatMap(stepsOfDelivery),
    ...(entry.status === null
      ? []
      : [
          {
            atMs: at + (entry.durationMs ?? 0),
            tone: status < 400 ? "good" : status < 500 ? "warn" : "bad",
            text: (
              <>
                Response {entry.status} {STATUS_CODES[status]} <span class="quiet">{entry.problem?.detail}</span>
                {entry.problem && <FieldErrors errors={entry.problem.errors} />}
              </>
            ),
          } as const,
        ]),
    ...changes.map(
      (change): Step => ({
        atMs: timeOfId(change.id),
        tone: "plain",
        text: (
          <>
            <a href={`/settings/audit?${new URLSearchParams({ target: entry.keyId })}`}>
              <code>{change.action}</code>
            </a>{" "}
            by <bdi>{actorNameOf(change)}</bdi>
            {change.changes.length > 0 && <span class="quiet">: {change.changes.join(", ")}</span>}
          </>
        ),
      }),
    ),
  ];
  return steps.toSorted((one, other) => one.atMs - other.atMs);
}

/** Renders the errors of single members, parameters and headers of a request. Renders nothing if there are none. */
export const FieldErrors = ({ errors }: { errors: NonNullable<ReadEntry["problem"]>["errors"] }) =>
  errors.length === 0 ? null : (
    <ul>
      {errors.map(({ pointer, parameter, header, detail }) => (
        <li>
          <code class="break">{pointer ?? parameter ?? header}</code>: {detail}
        </li>
      ))}
    </ul>
  );

/** Renders the trace of a request on one axis of time. */
export const Trace = ({ details, children }: { details: RequestDetails; children?: Child }) => {
  const at = timeOfId(details.entry.id);
  const { otherEvents, olderDeliveries, otherChanges } = details;
  const left = [
    ...(otherEvents > 0 ? [counted(otherEvents, "other event")] : []),
    ...(olderDeliveries > 0 ? [`the attempts of ${counted(olderDeliveries, "older delivery", "older deliveries")}`] : []),
    ...(otherChanges > 0 ? [`${counted(otherChanges, "more change")} of the key within ten minutes`] : []),
  ];
  return (
    <section class="panel" aria-labelledby="trace">
      <h2 id="trace">Trace</h2>
      <ol class="trace">
        {stepsOf(details).map(({ atMs, tone, text }) => (
          <li class={tone}>
            <time datetime={iso(atMs)} title={iso(atMs)}>
              {offset(atMs, at)}
            </time>
            <span class={`state ${tone}`} aria-hidden="true">
              {marks[tone]}
            </span>
            <div>{text}</div>
          </li>
        ))}
      </ol>
      {left.length > 0 && <p class="quiet">Not shown: {left.join(", ")}.</p>}
      {children}
    </section>
  );
};
