import type { Child } from "hono/jsx";
import { openMs } from "../activity/entry.ts";
import { type ReadEntry, readEntry } from "../activity/read-activity.ts";
import { actorNameOf, listAudit, type ReadAuditEntry } from "../audit/audit.ts";
import { eventCatalogue } from "../events/catalogue.ts";
import type { Event } from "../events/event.ts";
import { requestOrigin, urlOf } from "../http/request-url.ts";
import { timeOfId } from "../ids/ids.ts";
import { type Operation, operationsIn, readOpenApi } from "../openapi/document.ts";
import { iso, minuteMs, secondMs } from "../time/clock.ts";
import { readEventsOfRequest } from "../webhooks/events-of-request.ts";
import { type Attempt, type Delivery, readDelivery } from "../webhooks/read-deliveries.ts";
import { Action } from "./components/fields.tsx";
import { Code, CopyButton } from "./components/secret.tsx";
import { StatusCode } from "./components/status.tsx";
import { Age, Moment } from "./components/time.tsx";
import type { PageContext } from "./context.ts";
import { explain } from "./explain-failure.ts";
import { newNonce } from "./form-idempotency.ts";
import { counted, duration, integer } from "./format.ts";
import { logContext, webhookContext } from "./operation-contexts.ts";
import { visitorMay } from "./permissions.tsx";

// Everything that is known about one request: why it was denied, and its trace from the admission to the last delivery attempt.

const aroundMs = 10 * minuteMs;
const maxAround = 10;
/** The deliveries whose attempts are in the trace. */
const maxDeliveries = 10;

type MadeDelivery = Delivery & { attempts: Attempt[] };

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

/** Quotes text for a shell. A client chose the path, so the path can contain any character. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns a curl command that repeats the request. The command lacks the original query string and body, because they are not stored. */
function curlOf({ method, path }: ReadEntry, origin: string): string {
  const how = method === "GET" ? "" : method === "HEAD" ? " -I" : ` -X ${method}`;
  const body = /^(?:POST|PUT|PATCH)$/.test(method) ? ` \\\n  -H "Content-Type: application/json" -d '{}'` : "";
  return `curl -g${how} ${quoted(origin + path)} -H "Authorization: Bearer $API_KEY"${body}`;
}

/** The route in the log of a request to another API that has not named it. */
const notGiven = "-";

/** Returns the scope that an operation needs. */
const scopeOf = (operation: Operation | undefined): string | undefined =>
  Object.values((operation?.security as Record<string, string[]>[] | undefined)?.[0] ?? {})[0]?.[0];

/** Returns a query string with the id from the request's path. The API console uses this query string to fill in the id. */
function idQuery({ path, route }: ReadEntry): string {
  const at = route.split("/").indexOf("{id}");
  const id = at === -1 ? undefined : path.split("/")[at];
  return id ? `?${new URLSearchParams({ id })}` : "";
}

const isOpen = ({ id }: ReadEntry, now: number): boolean => now < timeOfId(id) + openMs;

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

const attemptStep = (made: Attempt, delivery: MadeDelivery): Step => ({
  atMs: made.at,
  tone: made.error === null ? "good" : "bad",
  text: (
    <>
      <a href={`/deliveries/${delivery.id}`}>Delivery attempt</a>:{" "}
      {made.status === null ? (made.error ?? "no response") : `the receiver answered ${made.status}`} after {integer(made.durationMs)} ms
      {made.advice && <span class="quiet"> {made.advice}</span>}
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
                Response <StatusCode status={entry.status} /> {entry.problem?.detail}
                {(entry.problem?.errors.length ?? 0) > 0 && (
                  <ul>
                    {entry.problem?.errors.map(({ pointer, parameter, header, detail }) => (
                      <li>
                        <code>{pointer ?? parameter ?? header}</code>: {detail}
                      </li>
                    ))}
                  </ul>
                )}
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

/** Renders the trace of a request on one axis of time. */
const Trace = ({ details }: { details: RequestDetails }) => {
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
    </section>
  );
};

/** Renders what the visitor can do about a denied request or a failed delivery. Renders nothing if there is nothing to do. */
function Fixes({ c, details, missingScope }: { c: PageContext; details: RequestDetails; missingScope: string | undefined }) {
  const { entry, caused } = details;
  const failing = caused.flatMap(({ deliveries }) => deliveries).filter(({ status }) => status === "pending" || status === "failed");
  const key = `/keys/${entry.keyId}`;
  const fixes = [
    missingScope !== undefined && visitorMay(c, "keys") && (
      <a class="button main" href={`${key}?add=${encodeURIComponent(missingScope)}#change`}>
        Add scope {missingScope}
      </a>
    ),
    entry.errorCode === "rate_limit_exceeded" && visitorMay(c, "keys") && (
      <a class="button main" href={`${key}#field-hourly_limit`}>
        Raise the limit
      </a>
    ),
    ...(visitorMay(c, "webhooks")
      ? failing.map((delivery) =>
          delivery.status === "pending" ? (
            <Action action={`/deliveries/${delivery.id}/attempt`} kind="main">
              Try again
            </Action>
          ) : (
            <Action action={`/deliveries/${delivery.id}/redeliver`} kind="main" hidden={{ nonce: newNonce() }}>
              Try again
            </Action>
          ),
        )
      : []),
  ].filter((fix) => fix !== false);
  return fixes.length === 0 ? null : <p class="buttons">{fixes}</p>;
}

/** Renders everything that is known about one request. */
export function RequestView({ c, details, now }: { c: PageContext; details: RequestDetails; now: number }) {
  const { entry, operation } = details;
  const explanation = explain(entry);
  const missingScope = entry.errorCode === "insufficient_scope" ? scopeOf(operation) : undefined;
  // Requests to another API cannot be repeated here.
  const isOwn = entry.route.startsWith("/api/v1/");
  return (
    <>
      {explanation && (
        <section class="note alert" aria-labelledby="why">
          <h2 id="why">{(entry.status ?? 0) < 500 ? "Why this was refused" : "Why this failed"}</h2>
          <p>
            <StatusCode status={entry.status} /> {entry.errorCode && <code>{entry.errorCode}</code>}
          </p>
          <p>
            {explanation.why} {explanation.what}
            {missingScope && (
              <>
                {" "}
                The operation needs the scope <code>{missingScope}</code>.
              </>
            )}
            {entry.problem && ` ${entry.problem.detail}`}
          </p>
          {explanation.header && (
            <p class="quiet">
              The header <code>{explanation.header}</code> of the response contains more information for the client.
            </p>
          )}
          <p>
            <a href={`/keys/${entry.keyId}`}>View the key</a> ·{" "}
            <a href={`/activity?key_id=${entry.keyId}&status=${entry.status ?? "none"}`}>Similar requests</a>
          </p>
        </section>
      )}
      {entry.status === null && (
        <section class="note" aria-labelledby="open">
          <h2 id="open">The response is not known</h2>
          <p>
            {isOpen(entry, now)
              ? "Another API has served this request. It can report its response until ten minutes after the request."
              : "Another API has served this request, and has not reported its response. The success rate and the response times leave the request out."}
          </p>
        </section>
      )}
      <Trace details={details} />
      <Fixes c={c} details={details} missingScope={missingScope} />
      <section class="panel" aria-labelledby="request">
        <h2 id="request">The request</h2>
        <dl class="facts">
          <dt>When</dt>
          <dd>
            <Moment timeMs={timeOfId(entry.id)} />, <Age timeMs={timeOfId(entry.id)} now={now} />
          </dd>
          <dt>Took</dt>
          <dd>{duration(entry.durationMs)}</dd>
          <dt>Operation</dt>
          <dd>
            <code class="break">
              {entry.method} {entry.route === notGiven ? entry.path : entry.route}
            </code>
          </dd>
          <dt>Key</dt>
          <dd>
            <a href={`/keys/${entry.keyId}`}>
              <bdi>{entry.keyName ?? entry.keyId}</bdi>
            </a>
          </dd>
          <dt>Limit</dt>
          <dd>{entry.counted ? `counted as ${counted(entry.cost ?? 1, "unit")} of each limit` : "not counted"}</dd>
          <dt>From</dt>
          <dd>
            {entry.ip ?? (isOwn ? "an address that is no longer stored" : "an address that was not given")}
            {entry.country && `, ${entry.country}`}
          </dd>
          <dt>User agent</dt>
          <dd class="break">
            <bdi>{entry.userAgent ?? "none"}</bdi>
          </dd>
          {entry.count > 1 && (
            <>
              <dt>Represents</dt>
              <dd>{counted(entry.count, "request")} that were refused in the same way in the same second</dd>
            </>
          )}
          <dt>Request id</dt>
          <dd>
            <code class="break" id="request-id">
              {entry.id}
            </code>
            <CopyButton of="#request-id" />
          </dd>
        </dl>
      </section>
      {isOwn && (
        <section class="panel" aria-labelledby="again">
          <h2 id="again">Repeat this request</h2>
          {/^(?:POST|PUT|PATCH)$/.test(entry.method) && <p>The body of this request was not stored. Replace {"{}"} with your own body.</p>}
          <Code label="With curl" id="curl">
            {curlOf(entry, requestOrigin(c))}
          </Code>
          {operation && (
            <p>
              <a href={`/docs/api/${operation.operationId}${idQuery(entry)}#try-it`}>The same in the console</a>
            </p>
          )}
        </section>
      )}
    </>
  );
}
