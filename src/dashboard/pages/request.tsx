import { Hono } from "hono";
import { openMs } from "../../activity/entry.ts";
import { type ReadEntry, readEntry } from "../../activity/read-activity.ts";
import { actorNameOf, listAudit } from "../../audit/audit.ts";
import { requestOrigin, urlOf } from "../../http/request-url.ts";
import { timeOfId } from "../../ids/ids.ts";
import { type Operation, operationsIn, readOpenApi } from "../../openapi/document.ts";
import { iso, minuteMs, secondMs } from "../../time/clock.ts";
import { readEventsOfRequest } from "../../webhooks/events-of-request.ts";
import { showPage } from "../components/layout.tsx";
import { Code } from "../components/secret.tsx";
import { StatusCode } from "../components/status.tsx";
import { Age, Moment } from "../components/time.tsx";
import type { PageEnv } from "../context.ts";
import { explain } from "../explain-failure.ts";
import { counted, duration } from "../format.ts";
import { needs } from "../needs.ts";
import { logContext } from "../operation-contexts.ts";
import { visitorMay } from "../permissions.tsx";

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

const aroundMs = 10 * minuteMs;
const maxAround = 10;

/** Returns the time between a change and a request, for example "2 minutes before". */
function distance(timeMs: number, requestMs: number): string {
  const apart = Math.round(Math.abs(timeMs - requestMs) / secondMs);
  const length = apart < 60 ? counted(apart, "second") : counted(Math.round(apart / 60), "minute");
  return `${length} ${timeMs <= requestMs ? "before" : "after"}`;
}

/** The page of one request. The page explains a denial, lists the events that the request caused, and shows how to repeat the request. */
export const requestPages = new Hono<PageEnv>();

requestPages.get("/activity/:id", needs("session"), async (c) => {
  const context = logContext(c);
  const entry = await readEntry(context, c.req.param("id"));
  const explanation = explain(entry);
  const operation = operationsIn(await readOpenApi(c.env, urlOf(c))).find(
    ({ method, path }) => method.toUpperCase() === entry.method.replace("HEAD", "GET") && path === entry.route,
  )?.operation;
  const missingScope = entry.errorCode === "insufficient_scope" ? scopeOf(operation) : undefined;
  const caused = await readEventsOfRequest(context, entry.id);
  const at = timeOfId(entry.id);
  const around = visitorMay(c, "audit")
    ? (await listAudit(context, { filter: { from: at - aroundMs, to: at + aroundMs }, limit: maxAround })).rows
    : [];
  const origin = requestOrigin(c);
  // Requests to another API cannot be repeated here.
  const isOwn = entry.route.startsWith("/api/v1/");
  return showPage(
    c,
    { title: `${entry.method} ${entry.path}`, section: "Activity", trail: [["Activity", "/activity"]] },
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
            {isOpen(entry, context.now)
              ? "Another API has served this request. It can report its response until ten minutes after the request."
              : "Another API has served this request, and has not reported its response. The success rate and the response times leave the request out."}
          </p>
        </section>
      )}
      <section class="panel" aria-labelledby="request">
        <h2 id="request">The request</h2>
        <dl class="facts">
          <dt>Status</dt>
          <dd>
            <StatusCode status={entry.status} />
          </dd>
          <dt>When</dt>
          <dd>
            <Moment timeMs={timeOfId(entry.id)} />, <Age timeMs={timeOfId(entry.id)} now={context.now} />
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
            <code class="break">{entry.id}</code>
          </dd>
        </dl>
      </section>
      {caused.length > 0 && (
        <section class="panel" aria-labelledby="caused">
          <h2 id="caused">Events caused by this request</h2>
          <ul class="lines">
            {caused.map(({ event, deliveryIds }) => (
              <li>
                <code>{event.type}</code>
                {deliveryIds.length === 0 ? (
                  <span class="quiet">no webhook</span>
                ) : (
                  deliveryIds.map((id, index) => (
                    <a href={`/deliveries/${id}`}>
                      {deliveryIds.length === 1 ? "its delivery" : `delivery ${index + 1} of ${deliveryIds.length}`}
                    </a>
                  ))
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      {around.length > 0 && (
        <section class="panel" aria-labelledby="around">
          <header>
            <h2 id="around">Changes around this request</h2>
            <a href={`/settings/audit?${new URLSearchParams({ from: iso(at - aroundMs), to: iso(at + aroundMs) })}`}>In the audit log</a>
          </header>
          <p class="quiet">Changes by members and keys within ten minutes before or after the request.</p>
          <ul class="lines">
            {around.map((change) => (
              <li>
                <code>{change.action}</code>
                <bdi>{change.targetName ?? change.targetId}</bdi>
                <span class="quiet">
                  by <bdi>{actorNameOf(change)}</bdi>, {distance(timeOfId(change.id), at)}
                </span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {isOwn && (
        <section class="panel" aria-labelledby="again">
          <h2 id="again">Repeat this request</h2>
          {/^(?:POST|PUT|PATCH)$/.test(entry.method) && <p>The body of this request was not stored. Replace {"{}"} with your own body.</p>}
          <Code label="With curl" id="curl">
            {curlOf(entry, origin)}
          </Code>
          {operation && (
            <p>
              <a href={`/docs/api/${operation.operationId}${idQuery(entry)}#try-it`}>The same in the console</a>
            </p>
          )}
        </section>
      )}
    </>,
  );
});
