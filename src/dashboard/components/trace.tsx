import { STATUS_CODES } from "node:http";
import type { Child } from "hono/jsx";
import type { ReadEntry } from "../../activity/read-activity.ts";
import { actorNameOf } from "../../audit/audit.ts";
import { timeOfId } from "../../ids/ids.ts";
import { iso, minuteMs, secondMs } from "../../time/clock.ts";
import type { Attempt } from "../../webhooks/read-deliveries.ts";
import { integer } from "../format.ts";
import type { MadeDelivery, RequestDetails } from "../read-request.ts";
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

const attemptStep = (made: Attempt, delivery: MadeDelivery): Step => ({
  atMs: made.at,
  tone: made.error === null ? "good" : "bad",
  text: (
    <>
      <a href={`/deliveries/${delivery.id}`}>Delivery attempt</a>
      {delivery.webhookUrl !== null && (
        <>
          {" "}
          to <bdi class="break">{delivery.webhookUrl}</bdi>
        </>
      )}
      : {made.status === null ? resultOf(made) : `the receiver answered ${made.status}`} after {integer(made.durationMs)} ms
      {made.error !== null && made.responseBody !== "" && (
        <>
          {" "}
          <code class="quiet break">
            {made.responseBody.slice(0, maxAnswer)}
            {made.responseBody.length > maxAnswer && "…"}
          </code>
        </>
      )}
      {made.advice && made === delivery.attempts.at(-1) && <span class="quiet"> {made.advice}</span>}
    </>
  ),
});

/** Returns the steps of a request in the order of time: admission, response, events, attempts, and changes of its key. */
function stepsOf({ entry, caused, changes }: RequestDetails): Step[] {
  const at = timeOfId(entry.id);
  const status = entry.status ?? 0;
  const steps: Step[] = [
    {
      atMs: at,
      tone: entry.admitted ? "good" : "bad",
      text: (
        <>
          {entry.admitted ? "Admitted" : "Denied"}
          {limitsOf(entry) && <span class="quiet">: {limitsOf(entry)}</span>}
        </>
      ),
    },
    // An event belongs to the change that the request made, so it happened before the response.
    ...caused.flatMap(({ event, deliveryIds, deliveries }): Step[] => [
      {
        atMs: event.createdAt,
        tone: "plain",
        text: (
          <>
            Event <code>{event.type}</code>
            {deliveryIds.length === 0 ? (
              <span class="quiet"> for no webhook</span>
            ) : (
              deliveryIds.map((id, index) => (
                <>
                  {" "}
                  <a href={`/deliveries/${id}`}>
                    {deliveryIds.length === 1 ? "its delivery" : `delivery ${index + 1} of ${deliveryIds.length}`}
                  </a>
                </>
              ))
            )}
          </>
        ),
      },
      ...deliveries.flatMap((delivery) => [
        ...delivery.attempts.map((made) => attemptStep(made, delivery)),
        ...(delivery.status === "pending" && delivery.nextAttemptAt !== null
          ? [{ atMs: delivery.nextAttemptAt, tone: "plain" as const, text: <>Next delivery attempt</> }]
          : []),
      ]),
    ]),
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
      {children}
    </section>
  );
};
