import { Hono } from "hono";
import { hourStart, iso } from "../../../lib/time/clock.ts";
import { classes } from "../../../usage/figures.ts";
import { type Dimension, sharesBy } from "../../../usage/read-breakdown.ts";
import type { WindowName } from "../../../usage/windows.ts";
import { needs } from "../../access/needs.ts";
import { ActivityTable } from "../../components/activity-table.tsx";
import { Breakdown, breakdownTitles, orders } from "../../components/breakdown.tsx";
import { DifferenceSentence } from "../../components/difference.tsx";
import { Fact } from "../../components/fact.tsx";
import { ButtonLink, Options } from "../../components/fields.tsx";
import { Figures } from "../../components/figures.tsx";
import { PauseButton, showPage } from "../../components/layout.tsx";
import { LimitTable } from "../../components/limit-table.tsx";
import { Empty } from "../../components/notice.tsx";
import { beforeOf, RequestsChart, scalingOf } from "../../components/requests-chart.tsx";
import { SeriesTable } from "../../components/series-table.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { TimeOfDay } from "../../components/time.tsx";
import { TimesChart } from "../../components/times-chart.tsx";
import type { PageEnv } from "../../context.ts";
import { counted, integer, milliseconds, spanOf } from "../../format.ts";
import { namesOf } from "../../key-choices.ts";
import { readUsagePage, windows } from "./read.ts";

const windowNames: Record<WindowName, string> = { "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
export const usagePages = new Hono<PageEnv>();

usagePages.get("/usage", needs("session"), async (c) => {
  const { now, asOf, window, selected, spans, keyId, key, keys, cells, formerCells, log, chart, figures, change } = await readUsagePage(c);
  const { usage, highest } = figures;
  const { difference } = change;
  const names = namesOf(keys);
  const order = orders.find((each) => each === c.req.query("sort"));
  const bare = { window, ...(keyId && { key_id: keyId }), ...(order && { sort: order }) };
  const here = { ...bare, ...(selected && { from: iso(selected.from), to: iso(selected.to) }) };
  const address = (more: Record<string, string>) => `/usage?${new URLSearchParams({ ...here, ...more })}`;
  const list = `/usage?${new URLSearchParams(bare)}`;
  const title = selected ? spanOf(selected) : `Last ${windowNames[window]}`;
  const before = selected ? beforeOf(spans.window.from - spans.previous.from) : `in the ${windowNames[window]} before`;
  const total = usage.totalRequests.value;
  const breakdown = (by: Dimension) => (
    <Breakdown by={by} shares={sharesBy(by, cells)} names={names} order={order} address={address} span={spans.window} keyId={keyId} />
  );
  return showPage(
    c,
    {
      title: key ? `Usage of ${key.name}` : "Usage",
      section: "Requests",
      trail: key ? [["Usage", "/usage"]] : [],
      action: (
        <>
          <PauseButton />
          <ButtonLink href="/limits">Limits</ButtonLink>
          <ButtonLink href={address({}).replace("/usage?", "/usage.csv?")}>Download CSV</ButtonLink>
        </>
      ),
    },
    <>
      <Tabs
        kind="filters"
        label="Window"
        here={selected === null ? windowNames[window] : undefined}
        tabs={windows.map((name) => [windowNames[name], `/usage?${new URLSearchParams({ ...bare, window: name })}`])}
      >
        <form class="inline" method="get" action="/usage">
          {Object.entries(here).map(([name, value]) => name !== "key_id" && <input type="hidden" name={name} value={value} />)}
          <label class="unseen" for="key_id">
            Key
          </label>
          <select id="key_id" name="key_id">
            <Options of={[["", "all keys"], ...names]} chosen={keyId} />
          </select>
          <button type="submit">Show</button>
        </form>
        <span class="quiet">
          as of <TimeOfDay timeMs={asOf} />
        </span>
      </Tabs>
      {c.req.query("window") !== undefined && c.req.query("window") !== window && (
        <p role="alert">There is no window with this name, so the page shows {windowNames[window]}.</p>
      )}
      {selected && (
        <p class="chips">
          <a href={list} aria-label={`Remove the span ${spanOf(selected)} UTC`}>
            {spanOf(selected)} UTC <span aria-hidden="true">✕</span>
          </a>
        </p>
      )}
      <p class="difference" id="difference" data-refresh>
        {selected ? `${spanOf(selected)}: ` : difference && "Biggest change: "}
        {difference ? (
          <DifferenceSentence
            difference={difference}
            keys={new Map(keys.map((each) => [each.id, each]))}
            limit={change.limit}
            span={spans.window}
            keyId={keyId}
            before={before}
          />
        ) : (
          selected && (
            <>
              {total > 0 && formerCells.length === 0 ? `${counted(total, "request")}, none` : "nothing differs notably from"} {before}.
            </>
          )
        )}
        {selected && selected.to > now && <> The span ends with the current hour, which is not over yet.</>}
      </p>
      <div id="figures" data-refresh>
        <Figures
          {...figures}
          now={now}
          title={`API Usage - ${title}`}
          page=""
          before={selected ? spanOf(spans.previous) : window === "30d" ? undefined : before}
          isPast={selected !== null && selected.to <= hourStart(now)}
          isOfKey={key !== null}
          isUsual={selected !== null && difference === null}
        />
      </div>
      {key && highest?.limits && highest.limits.length > 1 && (
        <section class="panel" aria-labelledby="limits" id="limits-part" data-refresh>
          <h2 id="limits">Limits of this key</h2>
          <LimitTable limits={highest.limits} now={now} />
        </section>
      )}
      <section class="panel" aria-labelledby="requests" id="requests-part" data-refresh>
        <h2 id="requests">Requests</h2>
        {total === 0 && selected === null ? (
          <Empty>No requests in the last {windowNames[window]}.</Empty>
        ) : (
          <RequestsChart {...chart} selected={selected ?? undefined} list={list} scaling={scalingOf(c, address({}))} />
        )}
        <dl class="facts inline">
          {classes.map((name) => (
            <Fact name={name === "4xx" ? "4xx without 429" : name}>{integer(usage.byClass[name])}</Fact>
          ))}
          {usage.notReported > 0 && <Fact name="not reported">{integer(usage.notReported)}</Fact>}
        </dl>
      </section>
      {selected && (
        <section class="panel" aria-labelledby="log" id="log-part" data-refresh>
          <header>
            <h2 id="log">Requests in this period</h2>
            <a
              href={`/activity?${new URLSearchParams({ ...(keyId && { key_id: keyId }), from: iso(selected.from), to: iso(selected.to) })}`}
            >
              All in the log
            </a>
          </header>
          {!log || log.entries.length === 0 ? (
            <Empty>The log has no requests of this period. Figures are kept longer than the log.</Empty>
          ) : (
            <ActivityTable entries={log.entries} now={now} />
          )}
        </section>
      )}
      <section class="panel" aria-labelledby="times" id="times-part" data-refresh>
        <h2 id="times">Response time</h2>
        {usage.avgResponseTimeMs.value === null ? (
          <Empty>No request was admitted.</Empty>
        ) : (
          <TimesChart usage={usage} series={chart.series} stepMs={chart.stepMs} covered={chart.covered} list={list} />
        )}
        {usage.avgResponseTimeMs.value !== null && (
          <details>
            <summary>Show as a table</summary>
            <SeriesTable series={chart.series} stepMs={chart.stepMs} covered={chart.covered} list={list} />
          </details>
        )}
        <dl class="facts inline">
          <Fact name="average">{milliseconds(usage.avgResponseTimeMs.value)}</Fact>
          <Fact name="p50">{milliseconds(usage.p50Ms)}</Fact>
          <Fact name="p95">{milliseconds(usage.p95Ms)}</Fact>
          <Fact name="p99">{milliseconds(usage.p99Ms)}</Fact>
        </dl>
        <p class="quiet">
          The times cover only admitted requests, because denials are fast and would lower the times. A lower time is better. Percentiles
          are accurate to 5 %.
        </p>
      </section>
      <div class="columns" id="breakdowns" data-refresh>
        {[["key", "status"] as const, ["route"] as const].map((together) => (
          <div class="stack">
            {together.map((by) => (
              <section class="panel" aria-labelledby={`by-${by}`}>
                <h2 id={`by-${by}`}>{breakdownTitles[by]}</h2>
                {breakdown(by)}
              </section>
            ))}
          </div>
        ))}
      </div>
      <section class="panel" aria-labelledby="by-day" id="days-part" data-refresh>
        <h2 id="by-day">{breakdownTitles.day}</h2>
        <details open={order !== undefined}>
          <summary>Show {counted(sharesBy("day", cells).length, "day")}</summary>
          {breakdown("day")}
        </details>
      </section>
    </>,
  );
});
