import { Hono } from "hono";
import { secondMs } from "../../clock.ts";
import { always } from "../../db/optimistic-locking.ts";
import type { EventCatalogue } from "../../events/catalogue.ts";
import { Rotation, webhookInputs } from "../../http/inputs/webhook.ts";
import { percent } from "../../percent.ts";
import { readHealth, type WebhookHealth } from "../../webhooks/health.ts";
import { type DeliveryFilter, deliveryStatuses, listDeliveries } from "../../webhooks/read-deliveries.ts";
import { listWebhooks, readWebhook } from "../../webhooks/read-webhooks.ts";
import { sendTest } from "../../webhooks/redeliver.ts";
import { readRedelivery } from "../../webhooks/redeliver-many.ts";
import { type Webhook, webhookData } from "../../webhooks/webhook.ts";
import { changeWebhook, createWebhook, deleteWebhook, rotateWebhookSecret } from "../../webhooks/write-webhooks.ts";
import { reading, webhookWriting } from "../acting.ts";
import { DeliveryTable } from "../components/delivery-table.tsx";
import { Action, type Choice, Choices, TextField } from "../components/fields.tsx";
import { showPage } from "../components/layout.tsx";
import { Alert, Done, Empty } from "../components/notice.tsx";
import { OneTimeSecret, ShownBefore } from "../components/secret.tsx";
import { WebhookState } from "../components/status.tsx";
import { Age, Ahead, Moment } from "../components/time.tsx";
import { VerifySnippets } from "../components/verify-snippets.tsx";
import type { PageContext, PageEnv } from "../context.ts";
import { counted, dash, integer, milliseconds, rate } from "../format.ts";
import { asShown, attempt, Form, parseInput, type Refused, readForm } from "../forms.ts";
import { newNonce, runOnce } from "../once.ts";
import { visitorMay } from "../permissions.tsx";

const deliveriesShown = 25;
const mostWebhooks = 20;

interface Sent {
  form?: Form;
  refused?: Refused;
}

const idOf = (c: PageContext) => c.req.param("id") ?? "";
const trail = [["Webhooks", "/webhooks"]] as const;

/** What each action did, by the word in the address that its form leads back to. */
const outcomes: Record<string, (webhook: Webhook) => [sentence: string, call: string]> = {
  changed: ({ id }) => ["Changed. The next attempt goes by it.", `PATCH /api/v1/webhooks/${id}`],
  disabled: ({ id }) => [
    "Disabled. Its events are held until they are redelivered.",
    `PATCH /api/v1/webhooks/${id} {"status": "disabled"}`,
  ],
  enabled: ({ id }) => ["Enabled. What was held is not sent by itself: redeliver it.", `PATCH /api/v1/webhooks/${id} {"status": "active"}`],
  tested: ({ id }) => ["A test event is on its way. Load the page again to see what came back.", `POST /api/v1/webhooks/${id}/test`],
  "sent-before": ({ id }) => ["This form was sent before, and did nothing again.", `GET /api/v1/webhooks/${id}/deliveries`],
};

export function webhooksPages(catalogue: EventCatalogue) {
  const pages = new Hono<PageEnv>();
  const { NewWebhook, WebhookPatch } = webhookInputs(catalogue);
  const eventOptions: readonly Choice[] = [
    ["*", "All of them, those to come too."],
    ...catalogue.kinds.map(({ type, description }) => [type, description] as const),
  ];
  const back = (c: PageContext, done: string) => c.redirect(`/webhooks/${idOf(c)}?done=${done}`, 303);

  pages.get("/webhooks", async (c) => {
    const asking = reading(c);
    const webhooks = await listWebhooks(asking, { limit: mostWebhooks });
    const healths = await Promise.all(webhooks.map(({ id }) => readHealth(asking, id)));
    const isDeleted = c.req.query("done") === "deleted";
    return showPage(
      c,
      {
        title: "Webhooks",
        section: "Webhooks",
        action: visitorMay(c, "webhooks") && (
          <a class="button main" href="/webhooks/new">
            Add webhook
          </a>
        ),
      },
      <>
        {isDeleted && <Done call="DELETE /api/v1/webhooks/{id}">Deleted. Nothing more is sent to it.</Done>}
        {webhooks.length === 0 ? (
          <Empty>
            No webhooks yet. A webhook is a URL of yours that is told when something happens.{" "}
            {visitorMay(c, "webhooks") && <a href="/webhooks/new">Add the first one</a>}
          </Empty>
        ) : (
          <section class="panel" aria-label="Webhooks">
            <table class="cards">
              <thead>
                <tr>
                  <th scope="col">URL</th>
                  <th scope="col">Status</th>
                  <th scope="col">Events</th>
                  <th scope="col" class="number">
                    Success rate
                  </th>
                  <th scope="col" class="number">
                    p95
                  </th>
                  <th scope="col" class="number">
                    Backlog
                  </th>
                </tr>
              </thead>
              <tbody>
                {webhooks.map((webhook, index) => (
                  <WebhookRow webhook={webhook} health={healths[index] as WebhookHealth} now={asking.now} />
                ))}
              </tbody>
            </table>
          </section>
        )}
      </>,
    );
  });

  const showForm = (c: PageContext, { form = new Form(), refused }: Sent = {}) =>
    showPage(
      c,
      { title: "Add a webhook", section: "Webhooks", trail, status: refused ? 422 : 200 },
      <>
        <Alert refused={refused} />
        <form class="panel form" method="post" action="/webhooks">
          <input type="hidden" name="nonce" value={newNonce()} />
          <WebhookFields form={form} refused={refused} options={eventOptions} ticked={form.all("event_types")} />
          <button class="main" type="submit">
            Add webhook
          </button>
        </form>
      </>,
    );

  pages.get("/webhooks/new", (c) => showForm(c));

  pages.post("/webhooks", async (c) => {
    const form = await readForm(c);
    const parsed = parseInput(NewWebhook, webhookInputOf(form));
    if ("refused" in parsed) return showForm(c, { form, refused: parsed.refused });
    const { url, description, event_types: eventTypes } = parsed.input;
    const made = await attempt(() =>
      runOnce(
        c,
        form,
        (commit) => createWebhook(webhookWriting(c, catalogue, commit), { url, description, eventTypes }),
        ({ webhook }) => webhook.id,
      ),
    );
    if ("refused" in made) return showForm(c, { form, refused: made.refused });
    if ("repeated" in made.result)
      return showPage(
        c,
        { title: "Add a webhook", section: "Webhooks", status: 409 },
        <ShownBefore path={`/webhooks/${made.result.repeated}`} what="A webhook" />,
      );
    const { webhook, secret } = made.result.result;
    return showSecret(c, {
      title: "The webhook is made",
      webhook,
      secret,
      call: "POST /api/v1/webhooks",
      done: "Added. What happens from now on is sent to it.",
    });
  });

  const showWebhook = async (c: PageContext, { form = new Form(), refused }: Sent = {}) => {
    const asking = reading(c);
    const { now } = asking;
    const webhook = await readWebhook(asking, idOf(c));
    const filter: DeliveryFilter = {
      status: deliveryStatuses.find((status) => status === c.req.query("status")),
      eventType: catalogue.find(c.req.query("event_type") ?? "")?.type,
    };
    const redeliveryId = c.req.query("redelivery");
    const [health, deliveries, redelivery] = await Promise.all([
      readHealth(asking, webhook.id),
      listDeliveries(asking, webhook.id, { filter, after: c.req.query("after"), limit: deliveriesShown + 1 }),
      redeliveryId ? readRedelivery(asking, redeliveryId).catch(() => null) : null,
    ]);
    const { status } = webhookData(webhook);
    const { scopes } = webhookWriting(c, catalogue);
    const isReadable = scopes === null || catalogue.scopesFor(webhook.eventTypes).every((scope) => scopes.includes(scope));
    const isManageable = visitorMay(c, "webhooks") && isReadable;
    const done = c.req.query("done") ?? "";
    // An address that was kept may say what is so no longer.
    const isSo = { disabled: webhook.state === "disabled", enabled: webhook.state === "active" }[done] ?? true;
    const outcome = isSo ? outcomes[done]?.(webhook) : undefined;
    const shown = deliveries.slice(0, deliveriesShown);
    const last = shown.at(-1);
    const query = (more: Record<string, string | undefined>) => {
      const all = { status: filter.status, event_type: filter.eventType, ...more };
      const text = new URLSearchParams(Object.entries(all).filter((entry): entry is [string, string] => Boolean(entry[1]))).toString();
      return `/webhooks/${webhook.id}${text && `?${text}`}`;
    };
    return showPage(
      c,
      {
        title: webhook.url,
        section: "Webhooks",
        trail,
        status: refused ? 422 : 200,
        action: isManageable && (
          <>
            {webhook.state === "active" && (
              <Action action={`/webhooks/${webhook.id}/test`} kind="main" hidden={{ nonce: newNonce() }}>
                Send test event
              </Action>
            )}
            {webhook.state === "disabled" ? (
              <Action action={`/webhooks/${webhook.id}/enable`}>Enable</Action>
            ) : (
              <Action action={`/webhooks/${webhook.id}/disable`}>Disable</Action>
            )}
            <a class="button" href={`/webhooks/${webhook.id}/rotate-secret`}>
              Rotate secret
            </a>
            <a class="button danger" href={`/webhooks/${webhook.id}/delete`}>
              Delete
            </a>
          </>
        ),
      },
      <>
        {outcome && <Done call={outcome[1]}>{outcome[0]}</Done>}
        {redelivery && (
          <Done call={`GET /api/v1/redeliveries/${redelivery.id}`}>
            {redelivery.status === "done"
              ? `Redelivered: ${counted(redelivery.count, "event")} of ${integer(redelivery.count)} attempted.`
              : `Redelivering: ${integer(redelivery.sent)} of ${counted(redelivery.count, "event")} attempted, five a second. Load the page again for more.`}
          </Done>
        )}
        <Alert refused={refused} />
        {visitorMay(c, "webhooks") && !isReadable && (
          <div class="note">
            <p>
              This webhook is sent events about people, which your role does not read. An admin or an owner of the account can change it.
            </p>
          </div>
        )}
        {webhook.state === "disabled" && (
          <div class="note alert">
            <p>
              Disabled. {webhook.disabledReason} Its events are held.{" "}
              {health.held > 0 && `${counted(health.held, "event")} wait to be redelivered.`}
            </p>
          </div>
        )}
        {webhook.state === "active" && webhook.failingSince !== null && (
          <div class="note alert">
            <p>
              Failing since <Moment timeMs={webhook.failingSince} />. Each event is tried ten times in three days; five days after the first
              failure the webhook is disabled. The latest attempts say why.
            </p>
          </div>
        )}
        <section class="panel" aria-labelledby="facts">
          <h2 id="facts">The webhook</h2>
          <dl class="facts">
            <dt>Status</dt>
            <dd>
              <WebhookState status={status} />
            </dd>
            <dt>Success rate</dt>
            <dd>
              {rate(health.attempts === 0 ? null : percent(health.succeeded, health.attempts))}{" "}
              <span class="quiet">of the latest {counted(health.attempts, "attempt")}</span>
            </dd>
            <dt>p95</dt>
            <dd>{milliseconds(health.p95Ms)}</dd>
            <dt>Backlog</dt>
            <dd>
              {counted(health.waiting, "delivery", "deliveries")}
              {health.oldestWaitingAt !== null && (
                <>
                  , the oldest from <Age timeMs={health.oldestWaitingAt} now={now} />
                </>
              )}
            </dd>
            <dt>Events</dt>
            <dd class="scopes">
              {webhook.eventTypes.map((type) => (
                <code>{type}</code>
              ))}
            </dd>
            {webhook.description && (
              <>
                <dt>Description</dt>
                <dd>
                  <bdi>{webhook.description}</bdi>
                </dd>
              </>
            )}
            <dt>Id</dt>
            <dd>
              <code class="break">{webhook.id}</code>
            </dd>
            {webhook.overlapEndsAt !== null && webhook.overlapEndsAt > now && (
              <>
                <dt>Former secret</dt>
                <dd>
                  signs too, until it ends <Ahead timeMs={webhook.overlapEndsAt} now={now} />
                </dd>
              </>
            )}
          </dl>
        </section>
        <section class="panel" aria-labelledby="deliveries">
          <header>
            <h2 id="deliveries">Deliveries</h2>
            {webhook.state === "active" && filter.status !== "pending" && isManageable && (
              <a class="button" href={query({}).replace(webhook.id, `${webhook.id}/redeliver`)}>
                Redeliver all
              </a>
            )}
          </header>
          <nav class="filters" aria-label="Deliveries by status">
            <a href={query({ status: undefined })} aria-current={filter.status ? undefined : "page"}>
              all
            </a>
            {deliveryStatuses.map((each) => (
              <a href={query({ status: each })} aria-current={each === filter.status ? "page" : undefined}>
                {each}
              </a>
            ))}
            <form class="inline" method="get" action={`/webhooks/${webhook.id}`}>
              {filter.status && <input type="hidden" name="status" value={filter.status} />}
              <label class="unseen" for="event_type">
                Type of event
              </label>
              <select id="event_type" name="event_type">
                <option value="">every type</option>
                {catalogue.types.map((type) => (
                  <option value={type} selected={type === filter.eventType}>
                    {type}
                  </option>
                ))}
              </select>
              <button type="submit">Filter</button>
            </form>
          </nav>
          {shown.length === 0 ? (
            <Empty>
              {filter.status || filter.eventType ? (
                <>
                  Nothing matches. <a href={`/webhooks/${webhook.id}`}>Clear the filter</a>
                </>
              ) : (
                <>Nothing has been sent yet. A test event shows whether it arrives.</>
              )}
            </Empty>
          ) : (
            <DeliveryTable deliveries={shown} now={now} />
          )}
          {deliveries.length > deliveriesShown && last && (
            <p class="pages">
              <a href={query({ after: last.id })}>Older</a>
            </p>
          )}
        </section>
        {isManageable && (
          <section class="panel" aria-labelledby="change">
            <h2 id="change">Change</h2>
            <form class="form" method="post" action={`/webhooks/${webhook.id}`}>
              <input type="hidden" name="revision" value={webhook.revision} />
              <WebhookFields
                form={form}
                refused={refused}
                options={eventOptions}
                ticked={form.ticked("event_types") ?? webhook.eventTypes}
                webhook={webhook}
              />
              <button class="main" type="submit">
                Save
              </button>
            </form>
          </section>
        )}
        <VerifySnippets />
      </>,
    );
  };

  pages.get("/webhooks/:id", (c) => showWebhook(c));

  pages.post("/webhooks/:id", async (c) => {
    const form = await readForm(c);
    const given = webhookInputOf(form);
    const parsed = parseInput(WebhookPatch, {
      ...(form.has("url") && { url: given.url }),
      ...(form.has("description") && { description: given.description }),
      // Boxes that are not ticked are not sent.
      ...((form.has("event_types") || form.has("revision")) && { event_types: given.event_types }),
    });
    if ("refused" in parsed) return showWebhook(c, { form, refused: parsed.refused });
    const { url, description, event_types: eventTypes } = parsed.input;
    const patch = {
      ...(url !== undefined && { url }),
      ...(description !== undefined && { description: description ?? "" }),
      ...(eventTypes && { eventTypes }),
    };
    const changed = await attempt(() => changeWebhook(webhookWriting(c, catalogue), idOf(c), patch, asShown(form)));
    return "refused" in changed ? showWebhook(c, { form, refused: changed.refused }) : back(c, "changed");
  });

  for (const [verb, state, done] of [
    ["disable", "disabled", "disabled"],
    ["enable", "active", "enabled"],
  ] as const)
    pages.post(`/webhooks/:id/${verb}`, async (c) => {
      const changed = await attempt(() => changeWebhook(webhookWriting(c, catalogue), idOf(c), { state }, always));
      return "refused" in changed ? showWebhook(c, { refused: changed.refused }) : back(c, done);
    });

  pages.post("/webhooks/:id/test", async (c) => {
    const form = await readForm(c);
    const type = catalogue.find(form.text("event_type"))?.type ?? "webhook.test";
    const sent = await attempt(() => runOnce(c, form, (commit) => sendTest(webhookWriting(c, catalogue, commit), idOf(c), type)));
    if ("refused" in sent) return showWebhook(c, { refused: sent.refused });
    return "repeated" in sent.result ? back(c, "sent-before") : back(c, "tested");
  });

  pages.get("/webhooks/:id/rotate-secret", async (c) => {
    const webhook = await readWebhook(reading(c), idOf(c));
    return showPage(
      c,
      { title: "Rotate the secret", section: "Webhooks", trail: [...trail, [webhook.url, `/webhooks/${webhook.id}`]] },
      <form class="panel form" method="post" action={`/webhooks/${webhook.id}/rotate-secret`}>
        <input type="hidden" name="nonce" value={newNonce()} />
        <p>The webhook gets a new signing secret, which is shown once. During the overlap each request carries a signature of both.</p>
        <div class="field">
          <label for="overlap_seconds">Overlap</label>
          <select id="overlap_seconds" name="overlap_seconds">
            {(
              [
                [0, "none: the old secret signs no more"],
                [3600, "one hour"],
                [86_400, "one day"],
                [604_800, "seven days"],
              ] as const
            ).map(([seconds, label]) => (
              <option value={String(seconds)} selected={seconds === 86_400}>
                {label}
              </option>
            ))}
          </select>
        </div>
        <button class="main" type="submit">
          Rotate secret
        </button>
      </form>,
    );
  });

  pages.post("/webhooks/:id/rotate-secret", async (c) => {
    const form = await readForm(c);
    const parsed = parseInput(Rotation, { overlap_seconds: form.number("overlap_seconds") });
    if ("refused" in parsed) return showWebhook(c, { form, refused: parsed.refused });
    const overlapMs = parsed.input.overlap_seconds * secondMs;
    const rotated = await attempt(() =>
      runOnce(c, form, (commit) => rotateWebhookSecret(webhookWriting(c, catalogue, commit), idOf(c), overlapMs)),
    );
    if ("refused" in rotated) return showWebhook(c, { refused: rotated.refused });
    if ("repeated" in rotated.result)
      return showPage(
        c,
        { title: "Rotate the secret", section: "Webhooks", status: 409 },
        <ShownBefore path={`/webhooks/${idOf(c)}`} what="A new secret" />,
      );
    const { webhook, secret } = rotated.result.result;
    return showSecret(c, {
      title: "The new secret",
      webhook,
      secret,
      call: `POST /api/v1/webhooks/${webhook.id}/rotate-secret {"overlap_seconds": ${parsed.input.overlap_seconds}}`,
      done:
        overlapMs > 0
          ? "Rotated. Until the overlap ends, requests are signed with both."
          : "Rotated. Requests are signed with the new secret alone.",
    });
  });

  pages.get("/webhooks/:id/delete", async (c) => {
    const asking = reading(c);
    const webhook = await readWebhook(asking, idOf(c));
    const { waiting, held } = await readHealth(asking, webhook.id);
    return showPage(
      c,
      { title: "Delete a webhook", section: "Webhooks", trail: [...trail, [webhook.url, `/webhooks/${webhook.id}`]] },
      <section class="panel">
        <p>
          Nothing more will be sent to <code class="break">{webhook.url}</code>.{" "}
          {waiting + held > 0 && `${counted(waiting + held, "delivery", "deliveries")} that wait for it will not be made. `}
          To stop it for a while, disable it instead: its events are then held.
        </p>
        <p class="buttons">
          <Action action={`/webhooks/${webhook.id}/delete`} kind="danger">
            Delete
          </Action>
          <a class="button" href={`/webhooks/${webhook.id}`}>
            Keep it
          </a>
        </p>
      </section>,
    );
  });

  pages.post("/webhooks/:id/delete", async (c) => {
    const deleted = await attempt(() => deleteWebhook(webhookWriting(c, catalogue), idOf(c), always));
    return "refused" in deleted ? showWebhook(c, { refused: deleted.refused }) : c.redirect("/webhooks?done=deleted", 303);
  });

  return pages;
}

const WebhookRow = ({ webhook, health, now }: { webhook: Webhook; health: WebhookHealth; now: number }) => (
  <tr class="row">
    <th scope="row" class="path">
      <a class="whole" href={`/webhooks/${webhook.id}`}>
        {webhook.url}
      </a>
      {webhook.description && (
        <div class="quiet">
          <bdi>{webhook.description}</bdi>
        </div>
      )}
    </th>
    <td>
      <WebhookState status={webhookData(webhook).status} />
    </td>
    <td class="quiet">{webhook.eventTypes.includes("*") ? "all" : counted(webhook.eventTypes.length, "type")}</td>
    <td class="number" data-label="Success rate">
      {rate(health.attempts === 0 ? null : percent(health.succeeded, health.attempts))}
    </td>
    <td class="number" data-label="p95">
      {milliseconds(health.p95Ms)}
    </td>
    <td class="number" data-label="Backlog">
      {health.waiting === 0 ? dash : integer(health.waiting)}
      {health.oldestWaitingAt !== null && (
        <div class="quiet">
          <Age timeMs={health.oldestWaitingAt} now={now} />
        </div>
      )}
    </td>
  </tr>
);

const WebhookFields = ({
  form,
  refused,
  options,
  ticked,
  webhook,
}: {
  form: Form;
  refused?: Refused | undefined;
  options: readonly Choice[];
  ticked: readonly string[];
  webhook?: Webhook;
}) => (
  <>
    <TextField
      form={form}
      refused={refused}
      name="url"
      label="URL"
      type="url"
      value={webhook?.url}
      required
      maxlength={2048}
      placeholder="https://hooks.example.com/overview"
      help="Where events are posted to. https, a public host."
    />
    <TextField form={form} refused={refused} name="description" label="Description" value={webhook?.description} maxlength={500} />
    <Choices refused={refused} name="event_types" label="Event types" options={options} ticked={ticked} />
  </>
);

/** What a form says of a webhook, as the API takes it. */
const webhookInputOf = (form: Form) => ({
  url: form.text("url"),
  description: form.text("description"),
  event_types: form.all("event_types"),
});

function showSecret(
  c: PageContext,
  { title, webhook, secret, call, done }: { title: string; webhook: Webhook; secret: string; call: string; done: string },
) {
  return showPage(
    c,
    { title, section: "Webhooks", trail: [...trail, [webhook.url, `/webhooks/${webhook.id}`]] },
    <>
      <Done call={call}>{done}</Done>
      <OneTimeSecret label="Signing secret" secret={secret} variable="WEBHOOK_SECRET" file={`${webhook.id}.env`}>
        <p>
          <a class="button" href={`/webhooks/${webhook.id}`}>
            Go to the webhook
          </a>
        </p>
      </OneTimeSecret>
      <VerifySnippets />
    </>,
  );
}
