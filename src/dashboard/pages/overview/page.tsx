import { Hono } from "hono";
import type { ReadContext } from "../../../accounts/actor.ts";
import { highestOf, type NearestLimit, nearestLimit, readLiveUsages } from "../../../admission/rate-limit-usage.ts";
import { readAccountLimits } from "../../../budget/account-limits.ts";
import { servesSamples } from "../../../db/registry/manifests.ts";
import { type Key, statusOf } from "../../../keys/key.ts";
import { dayMs } from "../../../lib/time/clock.ts";
import { listActivity } from "../../../log/read/read-activity.ts";
import { readCells } from "../../../usage/read-breakdown.ts";
import { readUsage } from "../../../usage/read-usage.ts";
import { requireAsOf } from "../../../usage/usage-snapshot.ts";
import { usageWindowsAt } from "../../../usage/windows.ts";
import { readAttemptCounts } from "../../../webhooks/subscriptions/health.ts";
import { listWebhooks } from "../../../webhooks/subscriptions/read-webhooks.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { maxWebhooks } from "../../../webhooks/subscriptions/write-webhooks.ts";
import { needs } from "../../access/needs.ts";
import { visitorMay } from "../../access/permissions.tsx";
import { ActivityTable } from "../../components/activity-table.tsx";
import { DifferenceSentence } from "../../components/difference.tsx";
import { Figures } from "../../components/figures.tsx";
import { KeyText, Unused } from "../../components/key-list.tsx";
import { PauseButton, showPage } from "../../components/layout.tsx";
import { NameLink } from "../../components/name-link.tsx";
import { Empty } from "../../components/notice.tsx";
import { chartOf, RequestsChart } from "../../components/requests-chart.tsx";
import { KeyState, WebhookState, type WebhookStatus, webhookStatus } from "../../components/status.tsx";
import { Age, Ahead, Moment, TimeOfDay } from "../../components/time.tsx";
import type { PageEnv } from "../../context.ts";
import { countdown, counted } from "../../format.ts";
import { readKeyChoices } from "../../key-choices.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { remember } from "../../preferences.ts";
import { readDifference } from "../../read-difference.ts";

/** The guide for a first request. The quick start uses the sample resources. */
const firstGuide = servesSamples ? "/docs/guides/quick-start" : "/docs/guides/authentication";

import { isLongUnused } from "../../unused-keys.ts";

const entriesShown = 10;
const keysShown = 6;
const expiresSoonMs = 14 * dayMs;
/** The number of lines about failing webhooks, and about keys that expire soon. */
const eachShown = 3;

/** The start page: the usage figures, the latest requests, and the state of keys and webhooks. */
export const overview = new Hono<PageEnv>().get("/", needs("session"), async (c) => {
  const { account } = c.get("visitor");
  if (c.req.query("account") === account.id) remember(c, "account", account.id);
  const context = await snapshotContext(c);
  const { now } = context;
  const { window, previous } = usageWindowsAt("30d", now);
  const [usage, usages, shared, { entries }, keys, webhooks, cells, formerCells] = await Promise.all([
    readUsage(context, { window: "30d" }),
    // If a guard does not respond, only the rate-limit figure is missing.
    readLiveUsages(context).catch(() => null),
    readAccountLimits(contextOf(c)).catch(() => null),
    listActivity(context, { filter: {}, limit: entriesShown }),
    readKeyChoices(context),
    readWebhooks(context),
    readCells(context, window),
    readCells(context, previous),
  ]);
  const highest = usages && highestOf(usages, now);
  const nearest = nearestLimit(usages ?? [], shared?.limits ?? []);
  const { difference, limit } = await readDifference(context, window, cells, formerCells);
  return showPage(
    c,
    { title: "Overview", section: "Overview" },
    <>
      {visitorMay(c, "keys") && <FirstSteps keys={keys} webhooks={webhooks} isCalled={entries.length > 0} />}
      <div id="figures" data-refresh>
        <Attention keys={keys} webhooks={webhooks} nearest={nearest} now={now} />
        <Figures usage={usage} highest={highest} nearest={nearest} now={now} />
        <p class="quiet">
          As of <TimeOfDay timeMs={requireAsOf(context)} />.
          {account.sampleUntil !== null && (
            <>
              {" "}
              This is sample data: <code class="unbroken">npm start -- --fresh</code> starts again with new data,{" "}
              <code class="unbroken">npm start -- --empty</code> without sample data.
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
        {usage.totalRequests.value + usage.totalRequests.previous === 0 ? (
          <Empty>
            No requests yet. <a href={firstGuide}>Make the first one</a>
          </Empty>
        ) : (
          <RequestsChart {...chartOf(usage, "30d")} list="/usage?window=30d" />
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
          <KeysPanel keys={keys} called={new Set(cells.map(({ keyId }) => keyId))} now={now} />
          <WebhooksPanel webhooks={webhooks} now={now} />
          <section class="panel" aria-labelledby="docs">
            <h2 id="docs">Documentation</h2>
            <p>
              <a href={firstGuide}>{servesSamples ? "Quick start" : "Authentication"}</a> · <a href="/docs">Guides and reference</a> ·{" "}
              <a href="/api/v1/openapi.json">OpenAPI document</a>
            </p>
          </section>
        </div>
      </div>
    </>,
  );
});

/** Renders what needs somebody: a limit that is used up, a failing webhook, a key that expires soon. Renders nothing if nothing does. */
const Attention = ({
  keys,
  webhooks,
  nearest,
  now,
}: {
  keys: readonly Key[];
  webhooks: readonly ShownWebhook[];
  nearest: NearestLimit | null;
  now: number;
}) => {
  const failing = webhooks.filter(({ status }) => status === "failing");
  const expiring = keys
    .filter((key) => statusOf(key, now) === "active" && key.expiresAt !== null && key.expiresAt - now < expiresSoonMs)
    .toSorted((a, b) => (a.expiresAt ?? 0) - (b.expiresAt ?? 0));
  const isUsedUp = nearest !== null && nearest.used >= nearest.limit;
  if (!isUsedUp && failing.length + expiring.length === 0) return null;
  return (
    <ul class="attention" aria-label="What needs attention">
      {isUsedUp && (
        <li class="bad">
          {nearest.key === null ? (
            <>
              <a href="/limits">All keys together</a> have used up their limit per {nearest.per}, so all requests are denied
            </>
          ) : (
            <>
              <NameLink href={`/keys/${nearest.key.id}`} name={nearest.key.name} /> has used up its limit per {nearest.per}, so its requests
              are denied
            </>
          )}{" "}
          {nearest.per === "hour" ? (
            `for ${countdown(nearest.resetsAt, now)}`
          ) : (
            <>
              until <Moment timeMs={nearest.resetsAt} />
            </>
          )}
          .
        </li>
      )}
      {failing.slice(0, eachShown).map((webhook) => (
        <li class="bad">
          The webhook{" "}
          <a class="break" href={`/webhooks/${webhook.id}`}>
            {webhook.url}
          </a>{" "}
          is failing.
          {webhook.failingSince !== null && (
            <>
              {" "}
              The first failed attempt was <Age timeMs={webhook.failingSince} now={now} />.
            </>
          )}
        </li>
      ))}
      {failing.length > eachShown && (
        <li class="bad">
          <a href="/webhooks">{counted(failing.length - eachShown, "other webhook is failing", "other webhooks are failing")}</a>.
        </li>
      )}
      {expiring.slice(0, eachShown).map((key) => (
        <li class="warn">
          The key <NameLink href={`/keys/${key.id}`} name={key.name} /> expires <Ahead timeMs={key.expiresAt ?? now} now={now} />.
        </li>
      ))}
      {expiring.length > eachShown && (
        <li class="warn">
          <a href="/keys">{counted(expiring.length - eachShown, "other key expires", "other keys expire")} soon</a>.
        </li>
      )}
    </ul>
  );
};

/** Renders the first steps of a new account and marks the completed steps. Renders nothing if all steps are complete. */
const FirstSteps = ({ keys, webhooks, isCalled }: { keys: Key[]; webhooks: Webhook[]; isCalled: boolean }) => {
  const steps = [
    { isDone: keys.length > 0, text: "Create an API key", path: "/keys/new" },
    { isDone: isCalled, text: "Make a first request", path: firstGuide },
    { isDone: webhooks.length > 0, text: "Add a webhook", path: "/webhooks/new" },
  ];
  if (steps.every(({ isDone }) => isDone)) return null;
  return (
    <section class="panel steps" aria-labelledby="steps">
      <h2 id="steps">First steps</h2>
      <ol>
        {steps.map(({ isDone, text, path }) => (
          <li class={isDone ? "done" : ""}>
            <span aria-hidden="true">{isDone ? "✓" : "○"}</span> {isDone ? <>{text} (done)</> : <a href={path}>{text}</a>}
          </li>
        ))}
      </ol>
    </section>
  );
};

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

/** A webhook with its state. */
type ShownWebhook = Webhook & { status: WebhookStatus };

async function readWebhooks(context: ReadContext): Promise<ShownWebhook[]> {
  const webhooks = await listWebhooks(context, { limit: maxWebhooks });
  const counts = await readAttemptCounts(
    context,
    webhooks.map(({ id }) => id),
  );
  return webhooks.map((webhook) => ({
    ...webhook,
    status: webhookStatus(webhook, counts.get(webhook.id) ?? { attempts: 0, succeeded: 0 }),
  }));
}

const order = { failing: 0, degraded: 1, disabled: 2, active: 3 };

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
