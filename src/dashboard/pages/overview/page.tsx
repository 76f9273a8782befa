import { Hono } from "hono";
import { servesSamples } from "../../../db/registry/manifests.ts";
import { type Key, statusOf } from "../../../keys/key.ts";
import { brand } from "../../../lib/settings.ts";
import { needs } from "../../access/needs.ts";
import { ActivityTable } from "../../components/activity-table.tsx";
import { DifferenceSentence } from "../../components/difference.tsx";
import { Figures } from "../../components/figures.tsx";
import { KeyText, Unused } from "../../components/key-list.tsx";
import { PauseButton, showPage } from "../../components/layout.tsx";
import { NameLink } from "../../components/name-link.tsx";
import { Empty } from "../../components/notice.tsx";
import { chartOf, RequestsChart, scalingOf } from "../../components/requests-chart.tsx";
import { KeyState, WebhookState } from "../../components/status.tsx";
import { Age, Ahead, TimeOfDay } from "../../components/time.tsx";
import type { PageEnv } from "../../context.ts";
import { counted } from "../../format.ts";
import { remember } from "../../preferences.ts";
import { isLongUnused } from "../../unused-keys.ts";
import { Attention, expiresSoonMs } from "./attention.tsx";
import { FirstCall } from "./first-call.tsx";
import { FirstRequest } from "./first-request.tsx";
import { readOverview, type ShownWebhook } from "./read.ts";

const keysShown = 6;
/** The start page: the usage figures, the latest requests, and the state of keys and webhooks. */
export const overview = new Hono<PageEnv>().get("/", needs("session"), async (c) => {
  const { account } = c.get("visitor");
  if (c.req.query("account") === account.id) remember(c, "account", account.id);
  const { now, asOf, window, usage, highest, nearest, entries, keys, webhooks, called, difference, limit, first } = await readOverview(c);
  const isUnused = entries.length === 0 && usage.totalRequests.value + usage.totalRequests.previous === 0;
  // The log of an older account may be empty, because its entries were deleted. Its keys still say when they were used.
  const isNew = isUnused && keys.every(({ isUseKnown, lastUsedAt }) => isUseKnown && lastUsedAt === null);
  if (isNew && c.req.query("skip") === undefined)
    return showPage(
      c,
      { title: "Make your first call", section: "Overview" },
      <FirstCall c={c} keys={keys} webhooks={webhooks} now={now} />,
    );
  return showPage(
    c,
    { title: "Overview", section: "Overview" },
    <>
      {first && <FirstRequest c={c} details={first} hasWebhook={webhooks.length > 0} />}
      <div id="figures" data-refresh>
        <Attention keys={keys} webhooks={webhooks} nearest={nearest} now={now} />
        <Figures usage={usage} highest={highest} nearest={nearest} now={now} />
        <p class="quiet">
          As of <TimeOfDay timeMs={asOf} />.
          {account.sampleUntil !== null && (
            <>
              {" "}
              This is sample data. Start again with <code class="unbroken">--fresh</code> for new data, or with{" "}
              <code class="unbroken">--empty</code> for none.
            </>
          )}
        </p>
      </div>
      <section class="panel" aria-labelledby="chart">
        <h2 id="chart">Requests by day</h2>
        {difference && (
          <p>
            Biggest change:{" "}
            <DifferenceSentence
              difference={difference}
              keys={new Map(keys.map((key) => [key.id, key]))}
              limit={limit}
              span={window}
              before="in the 30 days before"
            />
          </p>
        )}
        {isUnused ? (
          <Empty>
            No requests yet. <a href="/">Make the first one</a>
          </Empty>
        ) : (
          <RequestsChart {...chartOf(usage, "30d")} list="/usage?window=30d" scaling={scalingOf(c, "/")} />
        )}
      </section>
      <div class="columns">
        <section class="panel" aria-labelledby="activity">
          <header>
            <h2 id="activity">Recent Activity</h2>
            <div class="actions">
              <PauseButton />
              <a href="/activity">All activity</a>
            </div>
          </header>
          <div id="latest" data-refresh>
            {entries.length === 0 ? (
              <Empty>No requests yet. The first request appears here a few seconds after its response. You do not need to reload.</Empty>
            ) : (
              <ActivityTable entries={entries} now={now} brief />
            )}
          </div>
        </section>
        <div class="stack">
          <KeysPanel keys={keys} called={called} now={now} />
          <WebhooksPanel webhooks={webhooks} now={now} />
          <section class="panel" aria-labelledby="docs">
            <h2 id="docs">Documentation</h2>
            <p>
              <a href={servesSamples ? "/docs/guides/quick-start" : "/docs/guides/authentication"}>
                {servesSamples ? "Quick start" : "Authentication"}
              </a>{" "}
              · <a href={brand.docsUrl || "/docs"}>Guides and reference</a> · <a href="/api/v1/openapi.json">OpenAPI document</a>
            </p>
          </section>
        </div>
      </div>
    </>,
  );
});

/** Renders the keys of the account. `called`: the ids of the keys with requests. */
const KeysPanel = ({ keys, called, now }: { keys: Key[]; called: ReadonlySet<string>; now: number }) => {
  const live = keys.filter((key) => statusOf(key, now) === "active");
  const expiring = live.filter(({ expiresAt }) => expiresAt !== null && expiresAt - now < expiresSoonMs);
  // The most recently used keys come first.
  const byUse = keys.toSorted((a, b) => (b.lastUsedAt ?? 0) - (a.lastUsedAt ?? 0));
  const unused = live.filter((key) => isLongUnused(key, now));
  return (
    <section class="panel" aria-labelledby="keys">
      <header>
        <h2 id="keys">API Keys</h2>
        <a href="/keys">All keys</a>
      </header>
      {keys.length === 0 ? (
        <Empty>
          No keys yet. <a href="/keys/new">Create the first one</a>.
        </Empty>
      ) : (
        <>
          <p class="quiet">
            {counted(live.length, "active key")}
            {expiring.length > 0 && <>, {expiring.length} expiring soon</>}
            {unused.length > 0 && <>, {unused.length} unused for 90 days</>}
          </p>
          <ul class="lines aligned">
            {byUse.slice(0, keysShown).map((key) => (
              <li>
                <NameLink href={`/keys/${key.id}`} name={key.name} />
                <KeyText keyRow={key} />
                <KeyState status={statusOf(key, now)} />
                <span class="quiet">
                  {key.expiresAt !== null && key.expiresAt > now ? (
                    <>
                      expires <Ahead timeMs={key.expiresAt} now={now} />
                    </>
                  ) : key.lastUsedAt === null ? (
                    <Unused keyRow={key} isCalled={called.has(key.id)} />
                  ) : (
                    <>
                      used <Age timeMs={key.lastUsedAt} now={now} />
                    </>
                  )}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
};

const order = { failing: 0, degraded: 1, disabled: 2, active: 3, "not used yet": 4 };

const WebhooksPanel = ({ webhooks, now }: { webhooks: readonly ShownWebhook[]; now: number }) => (
  <section class="panel" aria-labelledby="webhooks">
    <header>
      <h2 id="webhooks">Webhooks</h2>
      <a href="/webhooks">All webhooks</a>
    </header>
    {webhooks.length === 0 ? (
      <Empty>
        No webhooks yet. <a href="/webhooks">Learn about webhooks</a>
      </Empty>
    ) : (
      <ul class="lines of-one">
        {webhooks
          .toSorted((a, b) => order[a.status] - order[b.status])
          .map((webhook) => (
            <li>
              <a class="break" href={`/webhooks/${webhook.id}`} title={webhook.url}>
                {webhook.url}
              </a>
              <WebhookState status={webhook.status} />
              {webhook.failingSince !== null && (
                <span class="quiet">
                  first failure <Age timeMs={webhook.failingSince} now={now} />
                </span>
              )}
            </li>
          ))}
      </ul>
    )}
  </section>
);
