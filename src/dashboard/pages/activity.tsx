import { Hono } from "hono";
import { listActivity, requireComplete } from "../../activity/read-activity.ts";
import { Failure } from "../../errors/failure.ts";
import { timeOfId } from "../../ids/ids.ts";
import { iso } from "../../time/clock.ts";
import { addressOf, asWords, methods, queryIn, statuses } from "../activity-query.ts";
import { ActivityTable } from "../components/activity-table.tsx";
import { PauseButton, showPage } from "../components/layout.tsx";
import { Empty } from "../components/notice.tsx";
import { Moment } from "../components/time.tsx";
import type { PageEnv } from "../context.ts";
import { csvHeaders, csvOf, csvTitle, readRows } from "../csv.ts";
import { counted } from "../format.ts";
import { readKeyChoices } from "../key-choices.ts";
import { needs } from "../needs.ts";
import { logContext, openLogContext } from "../operation-contexts.ts";

const shownAtOnce = 50;
export const activityPages = new Hono<PageEnv>();

activityPages.get("/activity", needs("session"), async (c) => {
  const context = await openLogContext(c);
  const { now } = context;
  const { query, filter, ignored } = queryIn(c);
  const after = c.req.query("after");
  const [{ entries, next, lookedBackTo, asOf }, keys] = await Promise.all([
    listActivity(context, { filter, after: after && /^req_[0-9a-f]+~?$/.test(after) ? after : undefined, limit: shownAtOnce }),
    readKeyChoices(context),
  ]);
  const isFiltered = Object.values(query).some((value) => value !== undefined);
  const newest = entries[0]?.id;
  return showPage(
    c,
    {
      title: "Activity",
      section: "Activity",
      action: (
        <>
          <PauseButton />
          <a class="button" href={addressOf("/activity.csv", query)} title={csvTitle}>
            Download CSV
          </a>
        </>
      ),
    },
    <>
      {ignored.length > 0 && (
        <div class="note alert" role="alert">
          <p>
            Not filtered by <code>{ignored.join(" ")}</code>, because this text is not a filter. You can filter by method:POST, status:404,
            status:4xx, status:none, key:key_..., path:/api/v1/usage, from:TIME and to:TIME.
          </p>
        </div>
      )}
      {asOf !== null && (
        <div class="note alert" role="alert">
          <p>
            The latest requests cannot be read right now. The list is complete up to <Moment timeMs={asOf} />.
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
          <input
            id="status"
            name="status"
            value={query.status ?? c.req.query("status")}
            list="statuses"
            placeholder="404 or 4xx"
            size={8}
          />
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
            {query.key_id !== undefined && keys.every(({ id }) => id !== query.key_id) && (
              <option value={query.key_id} selected>
                {query.key_id}
              </option>
            )}
            {keys.map(({ id, name }) => (
              <option value={id} selected={id === query.key_id}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <div class="field grow">
          <label for="path">Path</label>
          <input id="path" name="path" value={query.path ?? c.req.query("path")} placeholder="/api/v1/usage" />
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
        <input
          id="q"
          name="q"
          class="grow"
          value={ignored.length > 0 && c.req.query("q") ? c.req.query("q") : asWords(query)}
          placeholder="method:POST status:5xx"
        />
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
      <p class="pill" data-news={addressOf("/activity/news", query, { since: newest ?? "req_0" })} hidden />
      <p class="unseen" aria-live="polite" data-news-aloud />
      <section class="panel" aria-label="Requests">
        {entries.length === 0 ? (
          <Empty>
            {next !== null ? (
              <>Nothing matches so far.</>
            ) : isFiltered ? (
              <>
                Nothing matches. <a href="/activity">Clear the filter</a>
              </>
            ) : (
              <>No requests yet. The page will announce the first request.</>
            )}
          </Empty>
        ) : (
          <ActivityTable entries={entries} now={now} />
        )}
      </section>
      <p class="pages">
        {after && <a href={addressOf("/activity", query)}>Newest</a>}{" "}
        {lookedBackTo !== null && (
          <span>
            Looked back to <Moment timeMs={lookedBackTo} />.
          </span>
        )}
        {next !== null && <a href={addressOf("/activity", query, { after: next })}>{lookedBackTo === null ? "Older" : "Continue"}</a>}
      </p>
    </>,
  );
});

/** Responds with the number of requests that are newer than `since`, or with 204 if there are none. */
activityPages.get("/activity/news", needs("session"), async (c) => {
  const { query, filter } = queryIn(c);
  const since = c.req.query("since") ?? "";
  const { entries } = await listActivity(logContext(c), { filter, limit: 100 });
  const fresh = entries.findIndex(({ id }) => id <= since);
  const count = fresh === -1 ? entries.length : fresh;
  if (count === 0) return c.body(null, 204);
  return c.json({ text: count === 100 ? "100 or more new requests" : counted(count, "new request"), href: addressOf("/activity", query) });
});

activityPages.get("/activity.csv", needs("session"), async (c) => {
  const { filter, ignored } = queryIn(c);
  if (ignored.length > 0) throw new Failure("invalid_parameter", `The list cannot be filtered by ${ignored.join(" ")}.`);
  const context = logContext(c);
  const { rows, areAll } = await readRows(async (position) => {
    const { entries, next } = requireComplete(await listActivity(context, { filter, ...position }));
    return { rows: entries, next };
  });
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
    "not_reported",
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
      String(entry.status === null),
    ]),
  );
  return c.body(csv, 200, csvHeaders("activity", areAll));
});
