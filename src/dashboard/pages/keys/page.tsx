import { Hono } from "hono";
import { readLiveUsages } from "../../../admission/rate-limit-usage.ts";
import { maskKeys } from "../../../credentials/mask-keys.ts";
import { requestOrigin } from "../../../http/request-url.ts";
import { createKey } from "../../../keys/create-key.ts";
import { type Key, keyStatuses } from "../../../keys/key.ts";
import { type KeyPosition, listKeys } from "../../../keys/read-keys.ts";
import { NewKey, newKeyOf } from "../../../keys/schemas.ts";
import { defaultScopes, scopes } from "../../../keys/scopes.ts";
import { brand, fileName } from "../../../lib/settings.ts";
import { readDailyRequests } from "../../../usage/daily-requests.ts";
import { needs } from "../../access/needs.ts";
import { grantableScopes, requireGrantableScopes, visitorMay } from "../../access/permissions.tsx";
import { CodeTabs } from "../../components/code-tabs.tsx";
import { ButtonLink, Submit, TextField } from "../../components/fields.tsx";
import { KeyFields, keyInputOf } from "../../components/key-fields.tsx";
import { KeyTable } from "../../components/key-list.tsx";
import { showPage } from "../../components/layout.tsx";
import { Alert, Done, Empty } from "../../components/notice.tsx";
import { OneTimeSecret, showShownBefore } from "../../components/secret.tsx";
import { Tabs } from "../../components/tabs.tsx";
import type { PageContext, PageEnv } from "../../context.ts";
import { firstCallSamples } from "../../first-call-samples.ts";
import { newNonce, runFormIdempotently } from "../../form-idempotency.ts";
import { attempt, Form, type FormError, ownValue, parseInput, readForm, type Sent } from "../../forms.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { isLongUnused } from "../../unused-keys.ts";
import { trailOf } from "../key/frame.tsx";

const shownAtOnce = 100;

export const keysPages = new Hono<PageEnv>();

/** Parses the cursor in the query string. Returns undefined if the text is not a valid cursor. The list then starts at the first key. */
function positionIn(text: string | undefined): KeyPosition | undefined {
  const [, createdAt, id = ""] = /^(\d{1,15})\.(key_[0-9A-Za-z]{16})$/.exec(text ?? "") ?? [];
  return createdAt === undefined ? undefined : { createdAt: Number(createdAt), id };
}

keysPages.get("/keys", needs("session"), async (c) => {
  const context = await snapshotContext(c);
  const { now } = context;
  const status = keyStatuses.find((each) => each === c.req.query("status"));
  const text = (c.req.query("q") ?? "").trim().slice(0, 200);
  const [keys, days, usages] = await Promise.all([
    listKeys(context, { statuses: status && [status], text, after: positionIn(c.req.query("after")), limit: shownAtOnce + 1 }),
    // If the log's database is not available, show the table without daily requests.
    readDailyRequests(context, 7).catch(() => new Map<string, number[]>()),
    // If a guard does not respond, show the table without the usage of this hour.
    readLiveUsages(context).catch(() => []),
  ]);
  const byKey = new Map(usages.map((usage) => [usage.keyId ?? "", usage]));
  const last = keys[shownAtOnce - 1];
  const byLastUse = (one: Key, other: Key) => (other.lastUsedAt ?? 0) - (one.lastUsedAt ?? 0);
  const shown = keys.slice(0, shownAtOnce).toSorted(byLastUse);
  const query = (more: Record<string, string>) => {
    const all = new URLSearchParams({ ...(status && { status }), ...(text && { q: maskKeys(text) }), ...more });
    return all.size === 0 ? "/keys" : `/keys?${all}`;
  };
  const isUnused = (key: Key) => isLongUnused(key, now);
  const [unused, others] = [shown.filter(isUnused), shown.filter((key) => !isUnused(key))];
  return showPage(
    c,
    {
      title: "API Keys",
      section: "API Keys",
      action: visitorMay(c, "keys") && (
        <ButtonLink kind="main" href="/keys/new">
          Create key
        </ButtonLink>
      ),
    },
    <>
      <Tabs
        kind="filters"
        label="Keys by status"
        here={status ?? "all"}
        tabs={[["all", "/keys"], ...keyStatuses.map((each) => [each, `/keys?status=${each}`] as const)]}
      >
        <form class="inline" method="get" action="/keys">
          {status && <input type="hidden" name="status" value={status} />}
          <label class="unseen" for="q">
            Name, beginning or last four characters of a key
          </label>
          <input id="q" name="q" type="search" value={maskKeys(text)} placeholder="Name or last four" autocomplete="off" />
          <button type="submit">Filter</button>
        </form>
      </Tabs>
      {shown.length === 0 ? (
        <Empty>
          {status || text ? (
            <>
              {text ? "No key matches." : `No key is ${status}.`} <a href="/keys">Show all keys</a>
            </>
          ) : (
            <>
              No keys yet. A client sends its key with each request. {visitorMay(c, "keys") && <a href="/keys/new">Create the first one</a>}
            </>
          )}
        </Empty>
      ) : (
        <section class="panel" aria-label="Keys">
          <KeyTable keys={others} now={now} days={days} usages={byKey} />
        </section>
      )}
      {unused.length > 0 && (
        <section class="panel" aria-labelledby="unused">
          <h2 id="unused">Unused for 90 days</h2>
          <p class="quiet">An unused key is a risk. Revoke the keys that you no longer need.</p>
          <KeyTable keys={unused} now={now} days={days} usages={byKey} />
        </section>
      )}
      {keys.length > shownAtOnce && last && (
        <p class="pages">
          <a href={query({ after: `${last.createdAt}.${last.id}` })}>Older keys</a>
        </p>
      )}
    </>,
  );
});

const presets: Record<string, { name: string; scopes: readonly string[] }> = {
  default: { name: "Default", scopes: defaultScopes },
  read: { name: "Read only", scopes: scopes.filter((scope) => scope.endsWith(":read")) },
  webhooks: { name: "Webhooks", scopes: ["webhooks:read", "webhooks:write"] },
  full: { name: "Full", scopes },
};

const Presets = () => (
  <nav class="presets" aria-label="Presets of scopes">
    <span class="quiet">Presets:</span>
    {Object.entries(presets).map(([id, { name, scopes }]) => (
      <a href={`/keys/new?preset=${id}`} data-ticks={scopes.join(" ")}>
        {name}
      </a>
    ))}
  </nav>
);

function showForm(c: PageContext, { form = new Form(), formError }: Sent = {}) {
  const preset = ownValue(presets, c.req.query("preset") ?? "") ?? presets.default;
  const { account } = c.get("visitor");
  const ticked = form.has("scopes_shown") ? form.all("scopes") : (form.ticked("scopes") ?? preset?.scopes ?? defaultScopes);
  return showPage(
    c,
    { title: "Create a key", section: "API Keys", trail: [["API Keys", "/keys"]], status: formError ? 422 : 200 },
    <>
      <Alert formError={formError} />
      <form class="panel form wide" method="post" action="/keys">
        <input type="hidden" name="nonce" value={newNonce()} />
        <input type="hidden" name="scopes_shown" value="yes" />
        <KeyFields form={form} formError={formError} options={grantableScopes(c)} ticked={ticked} account={account} presets={<Presets />}>
          <TextField
            form={form}
            formError={formError}
            name="name"
            label="Name"
            help="For example, the client that uses the key."
            required
            maxlength={100}
            autofocus={formError === undefined}
          />
        </KeyFields>
        <Submit>Create key</Submit>
      </form>
    </>,
  );
}

keysPages.get("/keys/new", needs("keys"), (c) => showForm(c));

/**
 * Returns whether a form has scope checkboxes but none of them is ticked. A form without the checkboxes gets the default scopes. Without default scopes, a
 * key needs none: it can be for the team's own API.
 */
const selectsNoScope = (form: Form) => defaultScopes.length > 0 && form.has("scopes_shown") && form.all("scopes").length === 0;
const noScope: FormError = { summary: "The key was not created.", fieldErrors: new Map([["scopes", "Select at least one scope."]]) };

keysPages.post("/keys", needs("keys", "always"), async (c) => {
  const form = await readForm(c);
  if (selectsNoScope(form)) return showForm(c, { form, formError: noScope });
  const parsed = parseInput(NewKey, keyInputOf(form));
  if ("formError" in parsed) return showForm(c, { form, formError: parsed.formError });
  const newKey = newKeyOf(parsed.input);
  const made = await attempt(async () => {
    requireGrantableScopes(c, newKey.scopes ?? []);
    return runFormIdempotently(
      c,
      form,
      (commit) => createKey(contextOf(c, commit), newKey),
      ({ key }) => key.id,
    );
  });
  if ("formError" in made) return showForm(c, { form, formError: made.formError });
  if ("repeated" in made.result)
    return showShownBefore(c, { title: "Create a key", section: "API Keys", what: "A key", path: `/keys/${made.result.repeated}` });
  const { key, secretKey } = made.result.result;
  return showSecret(c, { title: "Copy your key now", key, secretKey, call: "POST /api/v1/keys" });
});

/** Responds with the page that shows a secret key once. */
export function showSecret(
  c: PageContext,
  {
    title,
    key,
    secretKey,
    call,
    done = "Created. Requests with this key are accepted from now on.",
  }: { title: string; key: Key; secretKey: string; call: string; done?: string },
) {
  const path = `/keys/${key.id}`;
  return showPage(
    c,
    {
      title,
      section: "API Keys",
      trail: trailOf(key),
    },
    <>
      <Done call={call}>{done}</Done>
      <OneTimeSecret label="Secret key" secret={secretKey} variable={brand.keyVariable} file={fileName(`${key.id}.env`)}>
        <h3>Make the first call</h3>
        <CodeTabs name="first-call" samples={firstCallSamples(requestOrigin(c), secretKey)} />
      </OneTimeSecret>
      <section class="panel" aria-labelledby="waiting">
        <h2 id="waiting">First request</h2>
        <p data-live={`${path}/first-request`} aria-live="polite">
          Waiting for the first request with this key. <a href={path}>View the key</a>
        </p>
        <div data-first-request />
      </section>
    </>,
  );
}
