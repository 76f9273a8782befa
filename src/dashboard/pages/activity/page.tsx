import { Hono } from "hono";
import { iso } from "../../../lib/time/clock.ts";
import { listActivity } from "../../../log/read/read-activity.ts";
import { needs } from "../../access/needs.ts";
import { ActivityTable } from "../../components/activity-table.tsx";
import { ButtonLink, FilterField, Options, Submit } from "../../components/fields.tsx";
import { PageScript, PauseButton, showPage } from "../../components/layout.tsx";
import { Empty } from "../../components/notice.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { Moment } from "../../components/time.tsx";
import type { PageEnv } from "../../context.ts";
import { csvTitle } from "../../csv.ts";
import { counted, integer } from "../../format.ts";
import { namesOf } from "../../key-choices.ts";
import { contextOf } from "../../operation-contexts.ts";
import { addressOf, asWords, chipsOf, methods, queryIn, statuses, suggestionsFor } from "./query.ts";
import { readActivityPage } from "./read.ts";
import { isChosen, ranges } from "./spans.ts";

/** The value of a field for a date and time, in minutes, or in seconds or milliseconds if the time has them. */
const inField = (timeMs: number | undefined) => (timeMs === undefined ? undefined : iso(timeMs).replace(/(?::00)?(?:\.000)?Z$/, ""));

export const activityPages = new Hono<PageEnv>();

activityPages.get("/activity", needs("session"), async (c) => {
  const { now, query, ignored, isReversed, after, pagesBefore, list, keys } = await readActivityPage(c);
  const { entries, next, lookedBackTo, asOf } = list;
  const names = namesOf(keys);
  const otherKey = query.key_id === undefined || names.has(query.key_id) ? [] : [query.key_id];
  const chips = chipsOf(query, names);
  const newest = entries[0]?.id;
  // Nothing is newer than an older page, or than a time that is over.
  const isNewest = after === undefined && (query.to === undefined || query.to > now);
  return showPage(
    c,
    {
      title: "Activity",
      section: "Requests",
      action: (
        <>
          <PauseButton />
          <ButtonLink href={addressOf("/activity.csv", query)} title={csvTitle}>
            Download CSV
          </ButtonLink>
        </>
      ),
    },
    <>
      {ignored.length > 0 && (
        <div class="note alert" role="alert">
          <p>
            Not filtered by <code>{ignored.join(" ")}</code>, because this text is not a filter. You can filter by method:POST, status:404,
            status:4xx, status:403,404, status:none, key:key_..., path:/api/v1/usage, route:/api/v1/tasks/{"{id}"}, from:TIME and to:TIME.
          </p>
        </div>
      )}
      {isReversed && (
        <div class="note alert" role="alert">
          <p>
            “From” is later than “To”, so no request can match.{" "}
            <a href={addressOf("/activity", { ...query, from: query.to, to: query.from })}>Swap them</a>
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
      <div class="toolbar">
        <form class="filters" method="get" action="/activity">
          <label class="unseen" for="q">
            Filter as text
          </label>
          <input
            id="q"
            name="q"
            class="grow"
            value={ignored.length > 0 && c.req.query("q") ? c.req.query("q") : asWords(query)}
            placeholder="method:POST status:5xx"
            list="words"
            autocomplete="off"
          />
          <datalist id="words">
            <Options of={suggestionsFor(query, names)} />
          </datalist>
          <button type="submit">Apply</button>
        </form>
        <nav class="filters" aria-label="Time range">
          {ranges(now).map(([name, from, to]) => (
            <a href={addressOf("/activity", { ...query, from, to })} aria-current={isChosen(query, from, to) ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <Tabs
          kind="filters"
          label="Requests by status"
          here={query.status === "none" ? "not reported" : query.status}
          tabs={statuses.map((each) => [each === "none" ? "not reported" : each, addressOf("/activity", { ...query, status: each })])}
        />
      </div>
      <details class="all-filters" open={chips.length > 0}>
        <summary>Filters</summary>
        <form class="panel filter" method="get" action="/activity">
          <FilterField name="method" label="Method">
            <select id="method" name="method">
              <Options of={[["", "any"], ...new Set([...methods, ...(query.method ? [query.method] : [])])]} chosen={query.method} />
            </select>
          </FilterField>
          <FilterField
            name="status"
            label="Status"
            value={query.status ?? c.req.query("status")}
            list="statuses"
            placeholder="4xx"
            size={8}
          />
          <datalist id="statuses">
            <Options of={statuses} />
          </datalist>
          <FilterField name="key_id" label="Key">
            <select id="key_id" name="key_id">
              <Options of={[["", "any"], ...otherKey, ...names]} chosen={query.key_id} />
            </select>
          </FilterField>
          <FilterField name="path" label="Path" isWide value={query.path ?? c.req.query("path")} placeholder="/api/v1/usage" />
          {query.route !== undefined && <input type="hidden" name="route" value={query.route} />}
          <FilterField name="from" label="From (UTC)" type="datetime-local" step="any" value={inField(query.from)} />
          <FilterField name="to" label="To (UTC)" type="datetime-local" step="any" value={inField(query.to)} />
          <Submit>Filter</Submit>
        </form>
      </details>
      {chips.length > 0 && (
        <ul class="chips" aria-label="Filters">
          {chips.map(({ name, value, without }) => (
            <li>
              <a href={addressOf("/activity", without)} aria-label={`Remove the filter ${name}: ${value}`}>
                {name}: <bdi>{value}</bdi> <span aria-hidden="true">×</span>
              </a>
            </li>
          ))}
          {query.from !== undefined && query.to !== undefined && (
            <li>
              <a class="all" href={addressOf("/usage", { from: query.from, to: query.to, key_id: query.key_id })}>
                What differs in this time
              </a>
            </li>
          )}
          <li>
            <a class="all" href="/activity">
              Clear the filter
            </a>
          </li>
        </ul>
      )}
      <a class="skip" href="#requests">
        Skip to the requests
      </a>
      {isNewest && <p class="pill" data-news={addressOf("/activity/news", query, { since: newest ?? "req_0" })} hidden />}
      <p class="unseen" aria-live="polite" data-news-aloud />
      <section class="panel" id="requests" tabindex={-1} aria-label="Requests">
        {entries.length === 0 ? (
          <Empty>
            {next !== null && lookedBackTo !== null ? (
              <>
                Nothing matches since <Moment timeMs={lookedBackTo} />.{" "}
                <a href={addressOf("/activity", query, { after: next })}>Look further back</a>
              </>
            ) : chips.length > 0 ? (
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
        {after && pagesBefore.length > 0 && (
          <a href={addressOf("/activity", query, { after: pagesBefore.at(-1), before: pagesBefore.slice(0, -1).join(".") || undefined })}>
            Newer
          </a>
        )}{" "}
        {lookedBackTo !== null && (
          <span>
            Looked back to <Moment timeMs={lookedBackTo} />.
          </span>
        )}
        {next !== null && (
          <a
            href={addressOf("/activity", query, {
              after: next,
              before: [...pagesBefore, ...(after ? [after] : [])].join(".") || undefined,
            })}
          >
            {lookedBackTo === null ? "Older" : "Continue"}
          </a>
        )}
      </p>
      <PageScript name="log" c={c} />
    </>,
  );
});

/** Responds with the number of requests that are newer than `since`, or with 204 if there are none. */
activityPages.get("/activity/news", needs("session"), async (c) => {
  const { query, filter } = queryIn(c);
  const since = c.req.query("since") ?? "";
  const { entries, next } = await listActivity(contextOf(c), { filter, limit: 100 });
  const fresh = entries.findIndex(({ id }) => id <= since);
  const count = (fresh === -1 ? entries : entries.slice(0, fresh)).reduce((sum, entry) => sum + entry.count, 0);
  if (count === 0) return c.body(null, 204);
  const text = fresh === -1 && next !== null ? `${integer(count)} or more new requests` : counted(count, "new request");
  return c.json({ text, href: addressOf("/activity", query) });
});
