import { Hono } from "hono";
import { readKeyTraffic } from "../../activity/key-traffic.ts";
import { type ActivityReadContext, listActivity } from "../../activity/read-activity.ts";
import { readKeyUsage } from "../../admission/rate-limit-usage.ts";
import { listAudit } from "../../audit/audit.ts";
import { always } from "../../db/optimistic-locking.ts";
import { timeOfId } from "../../ids/ids.ts";
import { changeKey } from "../../keys/change-key.ts";
import { widens } from "../../keys/grants.ts";
import { type Key, statusOf } from "../../keys/key.ts";
import { readKey, readKeyRow } from "../../keys/read-keys.ts";
import { KeyPatch, keyPatchOf } from "../../keys/schemas.ts";
import { isServed } from "../../keys/scopes.ts";
import { hourMs, iso } from "../../time/clock.ts";
import { percent } from "../../usage/percent.ts";
import { readUsage } from "../../usage/read-usage.ts";
import { ActivityTable } from "../components/activity-table.tsx";
import { Action, TextField } from "../components/fields.tsx";
import { KeyText, Unused } from "../components/key-list.tsx";
import { showPage } from "../components/layout.tsx";
import { Alert, Done, Empty, Note } from "../components/notice.tsx";
import { RequestsChart } from "../components/requests-chart.tsx";
import { KeyState } from "../components/status.tsx";
import { Age, Ahead, Moment } from "../components/time.tsx";
import { idOf, type PageContext, type PageEnv } from "../context.ts";
import { countdown, integer, share, wholePercent } from "../format.ts";
import { asShown, attempt, Form, ownValue, parseInput, readForm, type Sent } from "../forms.ts";
import { needs } from "../needs.ts";
import { keyContext, logContext, openLogContext, readContext } from "../operation-contexts.ts";
import { grantableScopes, mayTouch, requireGrantableScopes, visitorMay } from "../permissions.tsx";
import { askForStepUp } from "../step-up.tsx";
import { KeyFields, keyInputOf } from "./keys.tsx";

const entriesShown = 10;
/** Maps each value of the `done` query parameter to a message and the matching API call. */
const outcomes: Record<string, (key: Key) => [sentence: string, call: string]> = {
  changed: ({ id }) => ["Changed. Restrictions are in force now, and wider permissions within two seconds.", `PATCH /api/v1/keys/${id}`],
  disabled: ({ id }) => [
    "Disabled. Requests with this key are refused until you enable the key again.",
    `PATCH /api/v1/keys/${id} {"status": "disabled"}`,
  ],
  enabled: ({ id }) => ["Enabled. Requests with this key are accepted again.", `PATCH /api/v1/keys/${id} {"status": "active"}`],
  "overlap-ended": ({ id }) => [
    "The overlap has ended. Requests with the old secret are refused from now on.",
    `PATCH /api/v1/keys/${id} {"overlap_ends_at": null}`,
  ],
  revoked: ({ id }) => ["Revoked. Requests with this key are refused from now on.", `DELETE /api/v1/keys/${id}`],
};

export const keyPages = new Hono<PageEnv>();

keyPages.get("/keys/:id", needs("session"), (c) => showKey(c));

/** Responds with the page of a key. `formError` holds the reasons why a submitted form was rejected. */
export async function showKey(c: PageContext, { form = new Form(), formError }: Sent = {}) {
  const context = await openLogContext(c);
  const { now } = context;
  const key = await readKey(context, c.req.param("id") ?? "");
  // The page must work even if the guard or the log's database is not available, so that members can still revoke the key.
  const [usage, limit, log, traffic] = await Promise.all([
    readUsage(context, { window: "7d", keyId: key.id }).catch(() => null),
    readKeyUsage(context, key.id).catch(() => null),
    listActivity(context, { filter: { keyId: key.id }, limit: entriesShown }).catch(() => null),
    readTrafficSinceRotation(context, key).catch(() => null),
  ]);
  const bySecret = traffic?.bySecret;
  const status = statusOf(key, now);
  const done = c.req.query("done") ?? "";
  // A bookmarked URL may contain an outcome that is no longer true.
  const isSo = ownValue({ disabled: status === "disabled", enabled: key.state === "active", revoked: status === "revoked" }, done) ?? true;
  const outcome = isSo ? ownValue(outcomes, done)?.(key) : undefined;
  const isChangeable = status !== "revoked" && mayTouch(c, key.scopes);
  // The page of a denied request offers the scope that was missing.
  const added = grantableScopes(c).filter((scope) => scope === c.req.query("add") && !key.scopes.includes(scope));
  const overlapEndsAt = key.overlapEndsAt !== null && key.overlapEndsAt > now ? key.overlapEndsAt : null;
  return showPage(
    c,
    {
      title: key.name,
      section: "API Keys",
      trail: [["API Keys", "/keys"]],
      status: formError ? 422 : 200,
      action: status !== "revoked" && visitorMay(c, "keys") && (
        <>
          {key.state === "active" && <Action action={`/keys/${key.id}/disable`}>Disable</Action>}
          {key.state === "disabled" && isChangeable && <Action action={`/keys/${key.id}/enable`}>Enable</Action>}
          {isChangeable && (
            <a class="button" href={`/keys/${key.id}/rotate`}>
              Rotate
            </a>
          )}
          <a class="button danger" href={`/keys/${key.id}/revoke`}>
            Revoke
          </a>
        </>
      ),
    },
    <>
      {outcome && <Done call={outcome[1]}>{outcome[0]}</Done>}
      <Alert formError={formError} />
      {status !== "revoked" && visitorMay(c, "keys") && !isChangeable && (
        <Note>
          <p>
            This key has scopes that your role may not grant. You can disable or revoke the key, but only an admin or an owner of the
            account can change, rotate or enable it.
          </p>
        </Note>
      )}
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
      <section class="panel" aria-labelledby="facts">
        <h2 id="facts">The key</h2>
        <dl class="facts">
          <dt>Status</dt>
          <dd>
            <KeyState status={status} />
          </dd>
          <dt>Key</dt>
          <dd>
            <KeyText keyRow={key} />
          </dd>
          <dt>Id</dt>
          <dd>
            <code>{key.id}</code>
          </dd>
          <dt>Scopes</dt>
          <dd class="scopes">
            {key.scopes.map((scope) => (
              <code>{scope}</code>
            ))}
          </dd>
          <dt>Last used</dt>
          <dd>
            {key.lastUsedAt === null ? (
              <Unused keyRow={key} />
            ) : (
              <>
                <Age timeMs={key.lastUsedAt} now={now} /> at <code class="break">{key.lastUsedPath}</code>
              </>
            )}
          </dd>
          <dt>Expires</dt>
          <dd>
            {key.expiresAt === null ? (
              "never"
            ) : (
              <>
                <Moment timeMs={key.expiresAt} />,{" "}
                {key.expiresAt > now ? <Ahead timeMs={key.expiresAt} now={now} /> : <Age timeMs={key.expiresAt} now={now} />}
              </>
            )}
          </dd>
          <dt>Allowed IPs</dt>
          <dd>{key.allowedIps.length === 0 ? "any" : key.allowedIps.map((range) => <code>{range} </code>)}</dd>
          <dt>This hour</dt>
          <dd>
            {limit === null ? (
              "The usage of this key cannot be read right now. Reload the page."
            ) : (
              <>
                {integer(limit.used)} / {integer(limit.limit)} per hour ({wholePercent(percent(limit.used, limit.limit))}), resets in{" "}
                {countdown(limit.resetsAt, now)}
              </>
            )}
          </dd>
          {(limit?.limits ?? [])
            .filter(({ per }) => per !== "hour")
            .map((each) => (
              <>
                <dt>This {each.per}</dt>
                <dd>
                  {integer(each.used)} / {integer(each.limit)} per {each.per} ({wholePercent(percent(each.used, each.limit))})
                </dd>
              </>
            ))}
          <dt>Created</dt>
          <dd>
            <Moment timeMs={key.createdAt} /> by <bdi>{key.createdByName ?? `the ${key.createdByType ?? "operator"}`}</bdi>
          </dd>
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
          <Empty>No requests yet. Waiting for the first request.</Empty>
        ) : (
          <RequestsChart usage={usage} window="7d" list={`/activity?key_id=${key.id}`} />
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
          <ActivityTable entries={log.entries} now={now} brief />
        )}
      </section>
      {isChangeable && (
        <section class="panel" aria-labelledby="change">
          <h2 id="change">Change</h2>
          {added.length > 0 && (
            <p role="status">
              The scope <code>{added.join(" ")}</code> is ticked. Save to give it to the key.
            </p>
          )}
          <form class="form" method="post" action={`/keys/${key.id}`}>
            <input type="hidden" name="revision" value={key.revision} />
            <input type="hidden" name="scopes_shown" value="yes" />
            <TextField form={form} formError={formError} name="name" label="Name" value={key.name} required maxlength={100} />
            <KeyFields
              form={form}
              formError={formError}
              options={grantableScopes(c)}
              ticked={form.ticked("scopes") ?? [...key.scopes, ...added]}
              account={c.get("visitor").account}
              values={{
                hourlyLimit: String(key.hourlyLimit),
                otherLimits: key.otherLimits,
                expiresAt: key.expiresAt === null ? "" : iso(key.expiresAt).slice(0, 16),
                allowedIps: key.allowedIps.join("\n"),
              }}
            />
            <button class="main" type="submit">
              Save
            </button>
          </form>
        </section>
      )}
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

/** Redirects to the page of the key. The page shows the message for `done`. */
export const backToKey = (c: PageContext, done: string) => c.redirect(`/keys/${idOf(c)}?done=${done}`, 303);

/** Returns the changes that a form makes to a key. If the form lacks a field, the field's value stays unchanged. */
function changesIn(c: PageContext, form: Form, before: Key) {
  const { name, scopes = [], hourly_limit = c.get("visitor").account.limitCeiling, limits, allowed_ips, expires_at } = keyInputOf(form);
  // The expiry field shows no seconds. If the field still shows the same minute, keep the stored expiry time.
  const isSameEnd = before.expiresAt !== null && iso(before.expiresAt).slice(0, 16) === form.text("expires_at").slice(0, 16);
  return {
    ...(form.has("name") && { name }),
    // Browsers send only ticked checkboxes. The field `scopes_shown` shows that the form has the checkboxes, even if none is ticked.
    ...((form.has("scopes") || form.has("scopes_shown")) && { scopes }),
    ...(form.has("hourly_limit") && { hourly_limit }),
    ...(limits && { limits }),
    ...(form.has("allowed_ips") && { allowed_ips }),
    ...(form.has("expires_at") && !isSameEnd && { expires_at }),
  };
}

keyPages.post("/keys/:id", needs("keys", "sometimes"), async (c) => {
  const form = await readForm(c);
  const before = await readKey(await openLogContext(c), idOf(c));
  const parsed = parseInput(KeyPatch, changesIn(c, form, before));
  if ("formError" in parsed) return showKey(c, { form, formError: parsed.formError });
  const patch = keyPatchOf(parsed.input);
  // The form does not offer scopes of resources that are not served. The key keeps them.
  if (patch.scopes) patch.scopes = [...patch.scopes, ...before.scopes.filter((scope) => !isServed(scope))];
  const stepUp = widens(before, { ...before, ...patch }) ? await askForStepUp(c) : null;
  if (stepUp) return stepUp;
  const changed = await attempt(async () => {
    requireGrantableScopes(c, [...before.scopes, ...(patch.scopes ?? [])]);
    // Change only the revision in `before`, because the step-up check used this revision. If the key was narrowed since, the same patch
    // could widen the key without a step-up.
    return changeKey(keyContext(c), idOf(c), patch, (revision) => revision === before.revision && asShown(form)(revision));
  });
  return "formError" in changed ? showKey(c, { form, formError: changed.formError }) : backToKey(c, "changed");
});

// A leaked key must be easy to stop. Disabling a key therefore needs no recent sign-in. Every role with the permission `keys` may disable
// any key.
keyPages.post("/keys/:id/disable", needs("keys"), async (c) => {
  const changed = await attempt(() => changeKey(keyContext(c), idOf(c), { state: "disabled" }, always));
  return "formError" in changed ? showKey(c, { formError: changed.formError }) : backToKey(c, "disabled");
});

keyPages.post("/keys/:id/enable", needs("keys", "always"), async (c) => {
  const changed = await attempt(async () => {
    const { scopes, revision } = await readKeyRow(readContext(c), idOf(c));
    requireGrantableScopes(c, scopes);
    return changeKey(keyContext(c), idOf(c), { state: "active" }, (current) => current === revision);
  });
  return "formError" in changed ? showKey(c, { formError: changed.formError }) : backToKey(c, "enabled");
});

/**
 * Responds with a link to the latest request of a key. On the page, the link replaces the text "Waiting for the first request". The handler
 * reads the log itself.
 */
keyPages.get("/keys/:id/first-request", needs("session"), async (c) => {
  const { entries } = await listActivity(logContext(c), { filter: { keyId: idOf(c) }, limit: 1 });
  const [first] = entries;
  return first ? c.json({ text: `${first.method} ${first.path}, ${first.status}`, href: `/activity/${first.id}` }) : c.body(null, 204);
});
