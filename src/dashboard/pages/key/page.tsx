import { Hono } from "hono";
import { readKeyUsage } from "../../../admission/rate-limit-usage.ts";
import { always } from "../../../db/optimistic-locking.ts";
import { changeKey } from "../../../keys/change-key.ts";
import { type Key, statusOf } from "../../../keys/key.ts";
import { readKey, readKeyRow } from "../../../keys/read-keys.ts";
import { scopesInWords } from "../../../keys/scopes.ts";
import { makeTemporarySecret } from "../../../keys/temporary-secrets.ts";
import { timeOfId } from "../../../lib/ids.ts";
import { hourMs, secondMs } from "../../../lib/time/clock.ts";
import { readKeyTraffic } from "../../../log/read/key-traffic.ts";
import { type ActivityReadContext, listActivity } from "../../../log/read/read-activity.ts";
import { actorNameOf, listAudit } from "../../../outbox/audit.ts";
import { percent } from "../../../usage/percent.ts";
import { readUsage } from "../../../usage/read-usage.ts";
import { needs } from "../../access/needs.ts";
import { requireGrantableScopes, visitorMay } from "../../access/permissions.tsx";
import { ActivityTable } from "../../components/activity-table.tsx";
import { Fact } from "../../components/fact.tsx";
import { Action } from "../../components/fields.tsx";
import { Unused } from "../../components/key-list.tsx";
import { showPage, uncached } from "../../components/layout.tsx";
import { Empty } from "../../components/notice.tsx";
import { chartOf, RequestsChart, scalingOf } from "../../components/requests-chart.tsx";
import { KeyState } from "../../components/status.tsx";
import { Age, Ahead, Moment } from "../../components/time.tsx";
import { idOf, type PageContext, type PageEnv } from "../../context.ts";
import { countdown, integer, share, wholePercent } from "../../format.ts";
import { attempt, type Sent } from "../../forms.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { wantsJson } from "../../suggestions.ts";
import { backToKey, showTab } from "./frame.tsx";

const entriesShown = 10;
export const keyPages = new Hono<PageEnv>();

keyPages.get("/keys/:id", needs("session"), (c) => showKey(c));

/** Responds with the traffic of a key. `formError` holds the reasons why an action was rejected. */
export async function showKey(c: PageContext, { formError }: Sent = {}) {
  const context = await snapshotContext(c);
  const { now } = context;
  const key = await readKey(context, c.req.param("id") ?? "");
  // The page must work even if the guard or the log's database is not available, so that members can still revoke the key.
  const [usage, limit, log, traffic, ended] = await Promise.all([
    readUsage(context, { window: "7d", keyId: key.id }).catch(() => null),
    readKeyUsage(context, key.id).catch(() => null),
    listActivity(context, { filter: { keyId: key.id }, limit: entriesShown }).catch(() => null),
    readTrafficSinceRotation(context, key).catch(() => null),
    key.state !== "active" && visitorMay(c, "audit")
      ? listAudit(context, { filter: { action: `key.${key.state}`, target: key.id }, limit: 1 }).catch(() => null)
      : null,
  ]);
  const [end] = ended?.rows ?? [];
  const bySecret = traffic?.bySecret;
  const overlapEndsAt = key.overlapEndsAt !== null && key.overlapEndsAt > now ? key.overlapEndsAt : null;
  return showTab(
    c,
    key,
    { tab: "Traffic", formError },
    <>
      {overlapEndsAt !== null && (
        <div class="note">
          <p>
            The previous secret still works: it ends <Ahead timeMs={overlapEndsAt} now={now} />.{" "}
            {bySecret === undefined
              ? "The requests with each secret cannot be counted right now."
              : bySecret.current + bySecret.previous === 0
                ? "Neither secret has been used since the rotation."
                : `Requests since the rotation, in the last hour at most: ${integer(bySecret.current)} with the new one (${share(bySecret.current, bySecret.current + bySecret.previous)}), ${integer(bySecret.previous)} with the old one (${share(bySecret.previous, bySecret.current + bySecret.previous)}).`}
          </p>
          {visitorMay(c, "keys") && <Action action={`/keys/${key.id}/end-overlap`}>End the overlap now</Action>}
        </div>
      )}
      <section class="panel" aria-label="State of the key">
        <dl class="summary">
          <Fact name="Status">
            <KeyState status={statusOf(key, now)} />
            {end && (
              <>
                {" "}
                by <bdi>{actorNameOf(end)}</bdi>, <Age timeMs={timeOfId(end.id)} now={now} />
              </>
            )}
          </Fact>
          <Fact name="This hour">
            {limit === null ? (
              "The usage of this key cannot be read right now. Reload the page."
            ) : (
              <>
                {integer(limit.used)} / {integer(limit.limit)} per hour ({wholePercent(percent(limit.used, limit.limit))}), resets in{" "}
                {countdown(limit.resetsAt, now)}
              </>
            )}
          </Fact>
          {(limit?.limits ?? [])
            .filter(({ per }) => per !== "hour")
            .map((each) => (
              <Fact name={`This ${each.per}`}>
                {integer(each.used)} / {integer(each.limit)} per {each.per} ({wholePercent(percent(each.used, each.limit))})
              </Fact>
            ))}
          <Fact name="Last used">
            {key.lastUsedAt === null ? (
              <Unused keyRow={key} isCalled={usage !== null && usage.totalRequests.value > 0} />
            ) : (
              <>
                <Age timeMs={key.lastUsedAt} now={now} /> at <code class="break">{key.lastUsedPath}</code>
              </>
            )}
          </Fact>
          <Fact name="Expires">
            {key.expiresAt === null ? (
              "never"
            ) : (
              <>
                <Moment timeMs={key.expiresAt} />,{" "}
                {key.expiresAt > now ? <Ahead timeMs={key.expiresAt} now={now} /> : <Age timeMs={key.expiresAt} now={now} />}
              </>
            )}
          </Fact>
          <Fact name="Scopes">{scopesInWords(key.scopes)}</Fact>
        </dl>
      </section>
      <section class="panel" aria-labelledby="week">
        <header>
          <h2 id="week">Requests in seven days</h2>
          <a href={`/usage?window=7d&key_id=${key.id}`}>Usage of this key</a>
        </header>
        {usage === null ? (
          <Empty>The log cannot be reached right now.</Empty>
        ) : usage.totalRequests.value === 0 ? (
          <Empty>{key.state === "active" ? "No requests yet. Waiting for the first request." : "No requests in seven days."}</Empty>
        ) : (
          <RequestsChart {...chartOf(usage, "7d")} list={`/usage?window=7d&key_id=${key.id}`} scaling={scalingOf(c, `/keys/${key.id}`)} />
        )}
      </section>
      <section class="panel" aria-labelledby="requests">
        <header>
          <h2 id="requests">Latest requests</h2>
          <a href={`/activity?key_id=${key.id}`}>All requests with this key</a>
        </header>
        {log === null ? (
          <Empty>The log cannot be reached right now.</Empty>
        ) : log.entries.length === 0 ? (
          <Empty>No requests with this key are in the log.</Empty>
        ) : (
          <ActivityTable entries={log.entries} now={now} brief isOfKey />
        )}
      </section>
    </>,
  );
}

/**
 * Returns the requests of a key in the last hour. If the key was created or rotated during this hour, returns only the requests since then.
 */
async function readTrafficSinceRotation(context: ActivityReadContext, key: Key) {
  const from = context.now - hourMs;
  const [rotated] = (await listAudit(context, { filter: { action: "key.rotated", target: key.id, from }, limit: 1 })).rows;
  return readKeyTraffic(context, key.id, Math.max(from, rotated ? timeOfId(rotated.id) : key.createdAt));
}

// A leaked key must be easy to stop. Disabling a key therefore needs no recent sign-in. Every role with the permission `keys` may disable
// any key.
keyPages.post("/keys/:id/disable", needs("keys"), async (c) => {
  const changed = await attempt(() => changeKey(contextOf(c), idOf(c), { state: "disabled" }, always));
  return "formError" in changed ? showKey(c, { formError: changed.formError }) : backToKey(c, "disabled");
});

keyPages.post("/keys/:id/enable", needs("keys", "always"), async (c) => {
  const changed = await attempt(async () => {
    const { scopes, revision } = await readKeyRow(contextOf(c), idOf(c));
    requireGrantableScopes(c, scopes);
    return changeKey(contextOf(c), idOf(c), { state: "active" }, (current) => current === revision);
  });
  return "formError" in changed ? showKey(c, { formError: changed.formError }) : backToKey(c, "enabled");
});

/**
 * Responds with another secret of a key, which is valid for some minutes. The pages that send requests use it. If the sign-in was too long ago, the reader
 * confirms it in another tab, which says how to go on.
 */
keyPages.post("/keys/:id/send-as", needs("keys", "always"), async (c) => {
  const context = contextOf(c);
  if (!wantsJson(c))
    return showPage(c, { title: "Confirmed" }, <p role="status">Close this tab, and send the request again from the documentation.</p>);
  const { secretKey, until } = await makeTemporarySecret(context, idOf(c), (scopes) => requireGrantableScopes(c, scopes));
  return c.json({ secret_key: secretKey, expires_in: Math.floor((until - context.now) / secondMs) }, 200, uncached);
});

/**
 * Responds with a link to the first request of a new key. On the page, the link replaces the text "Waiting for the first request". The handler
 * reads the log itself.
 */
keyPages.get("/keys/:id/first-request", needs("session"), async (c) => {
  // The log is read from the newest request on. The page asks every few seconds, so a new key has few requests.
  const { entries } = await listActivity(contextOf(c), { filter: { keyId: idOf(c) }, limit: 100 });
  const first = entries.at(-1);
  return first ? c.json({ text: `${first.method} ${first.path}, ${first.status}`, href: `/activity/${first.id}` }) : c.body(null, 204);
});
