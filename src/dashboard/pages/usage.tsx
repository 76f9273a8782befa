import { Hono } from "hono";
import { highestOf, readKeyUsage, readLiveUsages } from "../../admission/rate-limit-usage.ts";
import { readKeyRow } from "../../keys/read-keys.ts";
import { iso } from "../../time/clock.ts";
import { classes, rateOf } from "../../usage/figures.ts";
import { busiestOf, readHours, weekOf } from "../../usage/hours.ts";
import { requireAsOf, requireLatest } from "../../usage/open-log.ts";
import { type Dimension, dimensions, readBreakdown, type Share } from "../../usage/read-breakdown.ts";
import { readUsage } from "../../usage/read-usage.ts";
import { usageWindowsAt, type WindowName, windowHours } from "../../usage/windows.ts";
import { readAnnotations } from "../annotations.ts";
import { Figures } from "../components/figures.tsx";
import { PauseButton, showPage } from "../components/layout.tsx";
import { LimitTable } from "../components/limit-table.tsx";
import { Empty } from "../components/notice.tsx";
import { RequestsChart, SeriesTable } from "../components/requests-chart.tsx";
import { TimeOfDay } from "../components/time.tsx";
import { TimesChart } from "../components/times-chart.tsx";
import { WeekHours } from "../components/week-hours.tsx";
import type { PageContext, PageEnv } from "../context.ts";
import { csvHeaders, csvOf } from "../csv.ts";
import { counted, exactMilliseconds, integer, milliseconds, rate, share } from "../format.ts";
import { readKeyChoices } from "../key-choices.ts";
import { needs } from "../needs.ts";
import { openLogContext } from "../operation-contexts.ts";

const maxShares = 20;
const windowNames: Record<WindowName, string> = { "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const columns: Record<Dimension, string> = { key: "Key", route: "Route", status: "Status", day: "Day (UTC)" };
const titles: Record<Dimension, string> = { key: "By key", route: "By route", status: "By status", day: "By day" };

const windowOf = (c: PageContext): WindowName =>
  (Object.keys(windowHours) as WindowName[]).find((name) => name === c.req.query("window")) ?? "30d";

export const usagePages = new Hono<PageEnv>();

usagePages.get("/usage", needs("session"), async (c) => {
  const window = windowOf(c);
  const context = await openLogContext(c);
  const { now } = context;
  const keyId = c.req.query("key_id") || undefined;
  const key = keyId === undefined ? null : await readKeyRow(context, keyId);
  const [usage, limit, keys, marks, hours, ...breakdowns] = await Promise.all([
    readUsage(context, { window, keyId }),
    // If a guard does not respond, only the rate-limit figure is missing.
    (keyId === undefined ? readLiveUsages(context).then((usages) => highestOf(usages, now)) : readKeyUsage(context, keyId)).catch(
      () => null,
    ),
    readKeyChoices(context),
    readAnnotations(context, usageWindowsAt(window, now).window),
    readHours(context, { window, keyId }),
    ...dimensions.map((by) => readBreakdown(context, { window, by, keyId })),
  ]);
  const names = new Map(keys.map(({ id, name }) => [id, name]));
  const address = (more: { window?: WindowName }) => `/usage?${new URLSearchParams({ window, ...(keyId && { key_id: keyId }), ...more })}`;
  const sharesBy = (by: Dimension) => breakdowns[dimensions.indexOf(by)]?.shares ?? [];
  const total = usage.totalRequests.value;
  return showPage(
    c,
    {
      title: key ? `Usage of ${key.name}` : "Usage",
      section: "Usage",
      trail: key ? [["Usage", "/usage"]] : [],
      action: (
        <>
          <PauseButton />
          <a class="button" href="/limits">
            Limits
          </a>
          <a class="button" href={address({}).replace("/usage?", "/usage.csv?")}>
            Download CSV
          </a>
        </>
      ),
    },
    <>
      <nav class="filters" aria-label="Window">
        {(Object.keys(windowHours) as WindowName[]).map((name) => (
          <a href={address({ window: name })} aria-current={name === window ? "page" : undefined}>
            {windowNames[name]}
          </a>
        ))}
        <form class="inline" method="get" action="/usage">
          <input type="hidden" name="window" value={window} />
          <label class="unseen" for="key_id">
            Key
          </label>
          <select id="key_id" name="key_id">
            <option value="">all keys</option>
            {keys.map(({ id, name }) => (
              <option value={id} selected={id === keyId}>
                {name}
              </option>
            ))}
          </select>
          <button type="submit">Show</button>
        </form>
        <span class="quiet">
          as of <TimeOfDay timeMs={requireAsOf(context)} />
        </span>
      </nav>
      <div id="figures" data-refresh>
        <Figures
          usage={usage}
          highest={limit}
          now={now}
          busiest={busiestOf(hours)}
          title={`API Usage - Last ${windowNames[window]}`}
          before={window === "30d" ? undefined : `in the ${windowNames[window]} before`}
        />
      </div>
      {key && limit?.limits && limit.limits.length > 1 && (
        <section class="panel" aria-labelledby="limits" id="limits-part" data-refresh>
          <h2 id="limits">Limits of this key</h2>
          <LimitTable limits={limit.limits} now={now} />
        </section>
      )}
      <section class="panel" aria-labelledby="requests" id="requests-part" data-refresh>
        <h2 id="requests">Requests</h2>
        {total === 0 ? (
          <Empty>No requests in the last {windowNames[window]}.</Empty>
        ) : (
          <RequestsChart
            usage={usage}
            window={window}
            marks={marks}
            list={keyId === undefined ? "/activity" : `/activity?key_id=${encodeURIComponent(keyId)}`}
          />
        )}
        <dl class="facts inline">
          {classes.map((name) => (
            <>
              <dt>{name === "4xx" ? "4xx without 429" : name}</dt>
              <dd>{integer(usage.byClass[name])}</dd>
            </>
          ))}
          {usage.notReported > 0 && (
            <>
              <dt>not reported</dt>
              <dd>{integer(usage.notReported)}</dd>
            </>
          )}
        </dl>
      </section>
      <section class="panel" aria-labelledby="times" id="times-part" data-refresh>
        <h2 id="times">Response time</h2>
        {usage.avgResponseTimeMs.value === null ? <Empty>No request was admitted.</Empty> : <TimesChart usage={usage} window={window} />}
        {usage.avgResponseTimeMs.value !== null && (
          <details>
            <summary>Show as a table</summary>
            <SeriesTable series={usage.series} window={window} />
          </details>
        )}
        <dl class="facts inline">
          <dt>average</dt>
          <dd>{milliseconds(usage.avgResponseTimeMs.value)}</dd>
          <dt>p50</dt>
          <dd>{milliseconds(usage.p50Ms)}</dd>
          <dt>p95</dt>
          <dd>{milliseconds(usage.p95Ms)}</dd>
          <dt>p99</dt>
          <dd>{milliseconds(usage.p99Ms)}</dd>
        </dl>
        <p class="quiet">
          The times cover only admitted requests, because denials are fast and would lower the times. A lower time is better. Percentiles
          are accurate to 5 %.
        </p>
      </section>
      {window !== "24h" && total > 0 && (
        <section class="panel" aria-labelledby="week" id="week-part" data-refresh>
          <h2 id="week">By weekday and hour</h2>
          <WeekHours week={weekOf(hours)} />
        </section>
      )}
      <div class="columns" id="breakdowns" data-refresh>
        {[["key", "status"] as const, ["route"] as const].map((together) => (
          <div class="stack">
            {together.map((by) => (
              <section class="panel" aria-labelledby={`by-${by}`}>
                <h2 id={`by-${by}`}>{titles[by]}</h2>
                <Breakdown by={by} shares={sharesBy(by)} names={names} total={total} />
              </section>
            ))}
          </div>
        ))}
      </div>
      <section class="panel" aria-labelledby="by-day" id="days-part" data-refresh>
        <h2 id="by-day">{titles.day}</h2>
        <details>
          <summary>Show {counted(sharesBy("day").length, "day")}</summary>
          <Breakdown by="day" shares={sharesBy("day")} names={names} total={total} />
        </details>
      </section>
    </>,
  );
});

const Breakdown = ({
  by,
  shares,
  names,
  total,
}: {
  by: Dimension;
  shares: readonly Share[];
  names: ReadonlyMap<string, string>;
  total: number;
}) => {
  const shown = by === "day" ? shares : shares.slice(0, maxShares);
  const rest = shares.slice(shown.length).reduce((sum, { requests }) => sum + requests, 0);
  return (
    <>
      {shares.length === 0 ? (
        <Empty>No requests.</Empty>
      ) : (
        <section class="scroll" tabindex={0} aria-label={`${titles[by]}, as a table`}>
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">{columns[by]}</th>
                <th scope="col" class="number">
                  Requests
                </th>
                <th scope="col" class="number">
                  Share
                </th>
                <th scope="col" class="number">
                  Success
                </th>
                <th scope="col" class="number">
                  Average
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((of) => (
                <tr>
                  <th scope="row" class="name">
                    {by === "key" ? (
                      <a href={`/keys/${of.value}`}>
                        <bdi>{names.get(of.value) ?? of.value}</bdi>
                      </a>
                    ) : (
                      <code>{of.value}</code>
                    )}
                  </th>
                  <td class="number" data-label="Requests">
                    {integer(of.requests)}
                  </td>
                  <td class="number" data-label="Share">
                    {share(of.requests, total)}
                  </td>
                  <td class="number" data-label="Success">
                    {rate(rateOf(of))}
                  </td>
                  <td class="number" data-label="Average">
                    {exactMilliseconds(of.averageMs)}
                  </td>
                </tr>
              ))}
              {rest > 0 && (
                <tr>
                  <th scope="row">all others</th>
                  <td class="number" data-label="Requests">
                    {integer(rest)}
                  </td>
                  <td class="number" data-label="Share">
                    {share(rest, total)}
                  </td>
                  <td />
                  <td />
                </tr>
              )}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
};

usagePages.get("/usage.csv", needs("session"), async (c) => {
  const context = await openLogContext(c);
  requireLatest(context);
  const keyId = c.req.query("key_id") || undefined;
  if (keyId !== undefined) await readKeyRow(context, keyId);
  const { series } = await readUsage(context, { window: windowOf(c), keyId });
  const csv = csvOf(
    ["start", "requests", "successes", "not_reported", "avg_response_time_ms", "p50_ms", "p95_ms", "p99_ms"],
    series.map((point) => [
      iso(point.start),
      point.requests,
      point.successes,
      point.notReported,
      point.averageMs,
      point.p50Ms,
      point.p95Ms,
      point.p99Ms,
    ]),
  );
  return c.body(csv, 200, csvHeaders("usage", true));
});
