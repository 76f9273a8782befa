import { Hono } from "hono";
import { z } from "zod";
import { type ActivityFilter, listActivity, type ReadEntry, readEntry } from "../../activity/read-activity.ts";
import { iso } from "../../clock.ts";
import { Failure } from "../../errors.ts";
import { readEventsOfRequest } from "../../events/read-events.ts";
import { timeOfId } from "../../ids.ts";
import { reading, upToDate } from "../acting.ts";
import { ActivityTable } from "../components/activity-table.tsx";
import { showPage } from "../components/layout.tsx";
import { Empty } from "../components/notice.tsx";
import { Code } from "../components/secret.tsx";
import { StatusCode } from "../components/status.tsx";
import { Age, Moment } from "../components/time.tsx";
import type { PageContext, PageEnv } from "../context.ts";
import { csvOf } from "../csv.ts";
import { counted, integer } from "../format.ts";
import { readKeyChoices } from "../key-choices.ts";
import { explain } from "../refusals.ts";

const shownAtOnce = 50;
const mostCsvRows = 10_000;
const csvPage = 1000;
const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
const statuses = ["2xx", "3xx", "4xx", "429", "5xx"] as const;

const time = z.iso
  .datetime({ offset: true, local: true })
  .transform((text) => Date.parse(/(?:Z|[+-]\d\d:\d\d)$/.test(text) ? text : `${text}Z`));

/** A text as a shell takes it, whatever is in it: the path is whatever a client has sent. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** The same request again, without its query and body, which nobody keeps. */
function curlOf({ method, path }: ReadEntry, origin: string): string {
  const how = method === "GET" ? "" : method === "HEAD" ? " -I" : ` -X ${method}`;
  const body = /^(?:POST|PUT|PATCH)$/.test(method) ? ` \\\n  -H "Content-Type: application/json" -d '{}'` : "";
  return `curl -g${how} ${quoted(origin + path)} -H "Authorization: Bearer $API_KEY"${body}`;
}

/** The filters of the API, as a page's query has them. What is not in their form is left out. */
const Query = z.object({
  method: z.enum(methods).optional().catch(undefined),
  status: z
    .string()
    .regex(/^[1-5](?:xx|\d\d)$/)
    .optional()
    .catch(undefined),
  key_id: z.string().min(1).max(64).optional().catch(undefined),
  path: z.string().min(1).max(1024).optional().catch(undefined),
  from: time.optional().catch(undefined),
  to: time.optional().catch(undefined),
});

/** The same as one line of text: `method:POST status:5xx key:key_... path:/api/v1/tasks`. */
const words: Record<string, string> = { method: "method", status: "status", key: "key_id", path: "path", from: "from", to: "to" };

function queryOf(c: PageContext) {
  const given = Object.fromEntries(Object.entries(c.req.query()).filter(([name, value]) => name in Query.shape && value !== ""));
  const text = c.req.query("q") ?? "";
  const said = text.split(/\s+/).filter((word) => word !== "");
  const inText = said.flatMap((each) => {
    const [, word = "", value = ""] = /^(\w+):(\S+)$/.exec(each) ?? [];
    return words[word] ? [[words[word], value] as const] : [];
  });
  const asked: Record<string, string> = { ...given, ...Object.fromEntries(inText) };
  if (asked.method) asked.method = asked.method.toUpperCase();
  if (asked.status) asked.status = asked.status.toLowerCase();
  const query = Query.parse(asked);
  // What cannot be filtered by is said, not left out in silence.
  const ignored = [
    ...Object.entries(asked).flatMap(([name, value]) => (query[name as keyof typeof query] === undefined ? [`${name}:${value}`] : [])),
    ...said.filter((each) => !words[/^(\w+):\S/.exec(each)?.[1] ?? ""]),
  ];
  const { key_id: keyId, status, ...rest } = query;
  const filter: ActivityFilter = { ...rest, keyId, status: status === undefined ? undefined : Number(status.replace("xx", "")) };
  return { query, filter, ignored };
}

const asWords = (query: z.infer<typeof Query>) =>
  Object.entries(words)
    .flatMap(([word, name]) => {
      const value = query[name as keyof typeof query];
      return value === undefined ? [] : [`${word}:${typeof value === "number" ? iso(value) : value}`];
    })
    .join(" ");

function addressOf(path: string, query: z.infer<typeof Query>, more: Record<string, string | undefined> = {}): string {
  const all = {
    ...query,
    from: query.from === undefined ? undefined : iso(query.from),
    to: query.to === undefined ? undefined : iso(query.to),
    ...more,
  };
  const text = new URLSearchParams(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined)).toString();
  return text === "" ? path : `${path}?${text}`;
}

export const activityPages = new Hono<PageEnv>();

activityPages.get("/activity", async (c) => {
  const asking = await upToDate(c);
  const { now } = asking;
  const { query, filter, ignored } = queryOf(c);
  const after = c.req.query("after");
  const [{ entries, next }, keys] = await Promise.all([
    listActivity(asking, { filter, after: after && /^req_\w+$/.test(after) ? after : undefined, limit: shownAtOnce }),
    readKeyChoices(asking),
  ]);
  const isFiltered = Object.values(query).some((value) => value !== undefined);
  const newest = entries[0]?.id;
  return showPage(
    c,
    {
      title: "Activity",
      section: "Activity",
      action: (
        <a class="button" href={addressOf("/activity.csv", query)}>
          Download CSV
        </a>
      ),
    },
    <>
      {ignored.length > 0 && (
        <div class="note alert" role="alert">
          <p>
            Not filtered by <code>{ignored.join(" ")}</code>: this is not known here. There are method:POST, status:404 or status:4xx,
            key:key_..., path:/api/v1/tasks, from: and to: with a time.
          </p>
        </div>
      )}
      <form class="panel filter" method="get" action="/activity">
        <div class="field">
          <label for="method">Method</label>
          <select id="method" name="method">
            <option value="">any</option>
            {methods.map((each) => (
              <option value={each} selected={each === query.method}>
                {each}
              </option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for="status">Status</label>
          <input id="status" name="status" value={query.status} list="statuses" placeholder="404 or 4xx" size={8} />
          <datalist id="statuses">
            {statuses.map((each) => (
              <option value={each} />
            ))}
          </datalist>
        </div>
        <div class="field">
          <label for="key_id">Key</label>
          <select id="key_id" name="key_id">
            <option value="">any</option>
            {keys.map(({ id, name }) => (
              <option value={id} selected={id === query.key_id}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <div class="field grow">
          <label for="path">Path</label>
          <input id="path" name="path" value={query.path} placeholder="/api/v1/tasks" />
        </div>
        {query.from !== undefined && <input type="hidden" name="from" value={iso(query.from)} />}
        {query.to !== undefined && <input type="hidden" name="to" value={iso(query.to)} />}
        <button class="main" type="submit">
          Filter
        </button>
      </form>
      <form class="filters" method="get" action="/activity">
        <label class="quiet" for="q">
          As text
        </label>
        <input id="q" name="q" class="grow" value={asWords(query)} placeholder="method:POST status:5xx" />
        <button type="submit">Apply</button>
        {isFiltered && <a href="/activity">Clear the filter</a>}
      </form>
      <nav class="filters" aria-label="Requests by status">
        {statuses.map((each) => (
          <a href={addressOf("/activity", { ...query, status: each })} aria-current={each === query.status ? "page" : undefined}>
            {each}
          </a>
        ))}
      </nav>
      <p class="pill" aria-live="polite" data-news={addressOf("/activity/news", query, { since: newest ?? "req_0" })} hidden />
      <section class="panel" aria-label="Requests">
        {entries.length === 0 ? (
          <Empty>
            {next !== null ? (
              <>
                None of the latest 10,000 requests matches. <a href={addressOf("/activity", query, { after: next })}>Look at older ones</a>
              </>
            ) : isFiltered ? (
              <>
                Nothing matches. <a href="/activity">Clear the filter</a>
              </>
            ) : (
              <>No requests yet. The first one shows here within two seconds of its answer.</>
            )}
          </Empty>
        ) : (
          <ActivityTable entries={entries} now={now} />
        )}
      </section>
      <p class="pages">
        {after && <a href={addressOf("/activity", query)}>Newest</a>}{" "}
        {next !== null && entries.length > 0 && <a href={addressOf("/activity", query, { after: next })}>Older</a>}
      </p>
    </>,
  );
});

/** How many requests have come since, for the line that says so. */
activityPages.get("/activity/news", async (c) => {
  const { query, filter } = queryOf(c);
  const since = c.req.query("since") ?? "";
  const { entries } = await listActivity(reading(c), { filter, limit: 100 });
  const fresh = entries.findIndex(({ id }) => id <= since);
  const count = fresh === -1 ? entries.length : fresh;
  if (count === 0) return c.body(null, 204);
  return c.json({ text: `${count === 100 ? "100 or more" : count} new`, href: addressOf("/activity", query) });
});

activityPages.get("/activity.csv", async (c) => {
  const { filter, ignored } = queryOf(c);
  if (ignored.length > 0) throw new Failure("invalid_parameter", `Nothing can be filtered by ${ignored.join(" ")}.`);
  const asking = reading(c);
  const rows: ReadEntry[] = [];
  for (let after: string | undefined; rows.length < mostCsvRows; ) {
    const { entries, next } = await listActivity(asking, { filter, after, limit: csvPage });
    rows.push(...entries);
    if (next === null) break;
    after = next;
  }
  const columns = [
    "id",
    "at",
    "method",
    "path",
    "route",
    "status",
    "error_code",
    "duration_ms",
    "key_id",
    "key_name",
    "ip",
    "country",
    "user_agent",
    "counted",
    "count",
  ];
  const csv = csvOf(
    columns,
    rows.map((entry) => [
      entry.id,
      iso(timeOfId(entry.id)),
      entry.method,
      entry.path,
      entry.route,
      entry.status,
      entry.errorCode,
      entry.durationMs,
      entry.keyId,
      entry.keyName,
      entry.ip,
      entry.country,
      entry.userAgent,
      String(entry.counted),
      entry.count,
    ]),
  );
  return c.body(csv, 200, { "Content-Type": "text/csv; charset=utf-8", "Content-Disposition": 'attachment; filename="activity.csv"' });
});

activityPages.get("/activity/:id", async (c) => {
  const asking = reading(c);
  const entry = await readEntry(asking, c.req.param("id"));
  const explanation = explain(entry);
  const caused = await readEventsOfRequest(asking, entry.id);
  const { origin } = c.get("url");
  return showPage(
    c,
    { title: `${entry.method} ${entry.path}`, section: "Activity", trail: [["Activity", "/activity"]] },
    <>
      {explanation && (
        <section class="note alert" aria-labelledby="why">
          <h2 id="why">{entry.status < 500 ? "Why this was refused" : "Why this failed"}</h2>
          <p>
            <StatusCode status={entry.status} /> {entry.errorCode && <code>{entry.errorCode}</code>}
          </p>
          <p>
            {explanation.why} {explanation.what}
          </p>
          {explanation.header && (
            <p class="quiet">
              The header <code>{explanation.header}</code> of the response told the client.
            </p>
          )}
          <p>
            <a href={`/keys/${entry.keyId}`}>Look at the key</a> ·{" "}
            <a href={`/activity?key_id=${entry.keyId}&status=${entry.status}`}>Others like it</a>
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
            <Moment timeMs={timeOfId(entry.id)} />, <Age timeMs={timeOfId(entry.id)} now={asking.now} />
          </dd>
          <dt>Took</dt>
          <dd>{integer(entry.durationMs)} ms</dd>
          <dt>Operation</dt>
          <dd>
            <code class="break">
              {entry.method} {entry.route}
            </code>
          </dd>
          <dt>Key</dt>
          <dd>
            <a href={`/keys/${entry.keyId}`}>
              <bdi>{entry.keyName ?? entry.keyId}</bdi>
            </a>
          </dd>
          <dt>Limit</dt>
          <dd>{entry.counted ? "used one of the hour" : "used none of the hour"}</dd>
          <dt>From</dt>
          <dd>
            {entry.ip ?? "an address that is no longer kept"}
            {entry.country && `, ${entry.country}`}
          </dd>
          <dt>User agent</dt>
          <dd class="break">
            <bdi>{entry.userAgent ?? "none"}</bdi>
          </dd>
          {entry.count > 1 && (
            <>
              <dt>Stands for</dt>
              <dd>{counted(entry.count, "request")} of that second that were refused alike</dd>
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
          <h2 id="caused">What it caused</h2>
          <ul class="lines">
            {caused.map(({ event, deliveryIds }) => (
              <li>
                <code>{event.type}</code>
                {deliveryIds.length === 0 ? (
                  <span class="quiet">for no webhook</span>
                ) : (
                  deliveryIds.map((id, index) => (
                    <a href={`/deliveries/${id}`}>{deliveryIds.length === 1 ? "its delivery" : `delivery ${index + 1}`}</a>
                  ))
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      <section class="panel" aria-labelledby="again">
        <h2 id="again">The same again</h2>
        <Code label="With curl" id="curl">
          {curlOf(entry, origin)}
        </Code>
      </section>
    </>,
  );
});
