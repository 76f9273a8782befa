import { Hono } from "hono";
import { brand, fileName } from "../../../lib/settings.ts";
import { percent } from "../../../usage/percent.ts";
import { readHealth, type WebhookHealth } from "../../../webhooks/subscriptions/health.ts";
import { listWebhooks } from "../../../webhooks/subscriptions/read-webhooks.ts";
import { NewWebhook } from "../../../webhooks/subscriptions/schemas.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { createWebhook, maxWebhooks } from "../../../webhooks/subscriptions/write-webhooks.ts";
import { needs } from "../../access/needs.ts";
import { visitorMay } from "../../access/permissions.tsx";
import { Columns, NumberCell } from "../../components/columns.tsx";
import { ButtonLink, Submit } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { Alert, Done, Empty } from "../../components/notice.tsx";
import { OneTimeSecret, showShownBefore } from "../../components/secret.tsx";
import { WebhookState, webhookStatus } from "../../components/status.tsx";
import { Age } from "../../components/time.tsx";
import { VerifySnippets } from "../../components/verify-snippets.tsx";
import { WebhookFields, webhookInputOf } from "../../components/webhook-fields.tsx";
import type { PageContext, PageEnv } from "../../context.ts";
import { newNonce, runFormIdempotently } from "../../form-idempotency.ts";
import { counted, dash, integer, milliseconds, rate } from "../../format.ts";
import { attempt, Form, parseInput, readForm, type Sent } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";

export const webhooksTrail = [["Webhooks", "/webhooks"]] as const;

/** The parents of a page about a webhook. */
export const trailOf = ({ id, url }: Pick<Webhook, "id" | "url">) => [...webhooksTrail, [url, `/webhooks/${id}`]] as const;

export const webhooksPages = new Hono<PageEnv>();

webhooksPages.get("/webhooks", needs("session"), async (c) => {
  const context = contextOf(c);
  const webhooks = await listWebhooks(context, { limit: maxWebhooks });
  const shown = await Promise.all(
    webhooks.map(async (webhook): Promise<ShownWebhook> => {
      const health = await readHealth(context, webhook.id);
      return { webhook, health, status: webhookStatus(webhook, health) };
    }),
  );
  const isDeleted = c.req.query("done") === "deleted";
  return showPage(
    c,
    {
      title: "Webhooks",
      section: "Webhooks",
      action: visitorMay(c, "webhooks") && (
        <ButtonLink kind="main" href="/webhooks/new">
          Add webhook
        </ButtonLink>
      ),
    },
    <>
      {isDeleted && <Done call="DELETE /api/v1/webhooks/{id}">Deleted. The webhook receives no more events.</Done>}
      {webhooks.length === 0 ? (
        <Empty>
          No webhooks yet. A webhook sends events to one of your URLs.{" "}
          {visitorMay(c, "webhooks") && <a href="/webhooks/new">Add the first one</a>}
        </Empty>
      ) : (
        <section class="panel" aria-label="Webhooks">
          <table class="cards one-line">
            <Columns
              of={[
                "URL",
                { name: "Status", width: 96 },
                { name: "Events", width: 96 },
                { name: "Success rate", width: 120, isNumber: true },
                { name: "p95", width: 96, isNumber: true },
                { name: "Backlog", width: 212, isNumber: true },
              ]}
            />
            <tbody>
              {shown
                .toSorted((a, b) => statusOrder.indexOf(a.status) - statusOrder.indexOf(b.status))
                .map((each) => (
                  <WebhookRow {...each} now={context.now} />
                ))}
            </tbody>
          </table>
        </section>
      )}
    </>,
  );
});

const showForm = (c: PageContext, { form = new Form(), formError }: Sent = {}) =>
  showPage(
    c,
    { title: "Add a webhook", section: "Webhooks", trail: webhooksTrail, status: formError ? 422 : 200 },
    <>
      <Alert formError={formError} />
      <form class="panel form" method="post" action="/webhooks">
        <input type="hidden" name="nonce" value={newNonce()} />
        <WebhookFields form={form} formError={formError} ticked={form.all("event_types")} />
        <Submit>Add webhook</Submit>
      </form>
    </>,
  );

webhooksPages.get("/webhooks/new", needs("webhooks"), (c) => showForm(c));

webhooksPages.post("/webhooks", needs("webhooks", "always"), async (c) => {
  const form = await readForm(c);
  const parsed = parseInput(NewWebhook, webhookInputOf(form));
  if ("formError" in parsed) {
    const noEvent = form.all("event_types").length === 0 ? [["event_types", "Select at least one event."] as const] : [];
    return showForm(c, { form, formError: { ...parsed.formError, fieldErrors: new Map([...parsed.formError.fieldErrors, ...noEvent]) } });
  }
  const { url, description, event_types: eventTypes } = parsed.input;
  const made = await attempt(() =>
    runFormIdempotently(
      c,
      form,
      (commit) => createWebhook(contextOf(c, commit), { url, description, eventTypes }),
      ({ webhook }) => webhook.id,
    ),
  );
  if ("formError" in made) return showForm(c, { form, formError: made.formError });
  if ("repeated" in made.result)
    return showShownBefore(c, {
      title: "Add a webhook",
      section: "Webhooks",
      what: "A webhook",
      path: `/webhooks/${made.result.repeated}`,
    });
  const { webhook, secret } = made.result.result;
  return showSigningSecret(c, {
    title: "Copy the signing secret now",
    webhook,
    secret,
    call: "POST /api/v1/webhooks",
    done: "Added. Events that happen from now on are sent to this webhook.",
  });
});

interface ShownWebhook {
  webhook: Webhook;
  health: WebhookHealth;
  status: ReturnType<typeof webhookStatus>;
}

/** Webhooks that need attention come first. */
const statusOrder: ShownWebhook["status"][] = ["failing", "degraded", "active", "not used yet", "disabled"];

const WebhookRow = ({ webhook, health, status, now }: ShownWebhook & { now: number }) => (
  <tr class="row">
    <th scope="row" class="path" title={`${webhook.url} ${webhook.description}`.trim()}>
      <a class="whole" href={`/webhooks/${webhook.id}`}>
        {webhook.url}
      </a>
      {webhook.description && (
        <span class="quiet">
          {" "}
          <bdi>{webhook.description}</bdi>
        </span>
      )}
    </th>
    <td>
      <WebhookState status={status} />
    </td>
    <td class="quiet">{webhook.eventTypes.includes("*") ? "all" : counted(webhook.eventTypes.length, "type")}</td>
    <NumberCell label="Success rate">{rate(health.attempts === 0 ? null : percent(health.succeeded, health.attempts))}</NumberCell>
    <NumberCell label="p95">{milliseconds(health.p95Ms)}</NumberCell>
    <NumberCell label="Backlog">
      {health.waiting === 0 ? dash : integer(health.waiting)}
      {health.oldestWaitingAt !== null && (
        <span class="quiet">
          {" "}
          oldest <Age timeMs={health.oldestWaitingAt} now={now} />
        </span>
      )}
    </NumberCell>
  </tr>
);

/** Responds with the page that shows a signing secret once. */
export function showSigningSecret(
  c: PageContext,
  { title, webhook, secret, call, done }: { title: string; webhook: Webhook; secret: string; call: string; done: string },
) {
  return showPage(
    c,
    { title, section: "Webhooks", trail: trailOf(webhook) },
    <>
      <Done call={call}>{done}</Done>
      <OneTimeSecret label="Signing secret" secret={secret} variable={brand.secretVariable} file={fileName(`${webhook.id}.env`)}>
        <p>
          <ButtonLink href={`/webhooks/${webhook.id}`}>Go to the webhook</ButtonLink>
        </p>
      </OneTimeSecret>
      <VerifySnippets url={webhook.url} />
    </>,
  );
}
