import type { Child } from "hono/jsx";
import { readWebhook } from "../../../webhooks/subscriptions/read-webhooks.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { mayReadEvents, visitorMay } from "../../access/permissions.tsx";
import { Action, ButtonLink } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { Alert, Done, Note } from "../../components/notice.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { idOf, type PageContext } from "../../context.ts";
import { newNonce } from "../../form-idempotency.ts";
import { type FormError, ownValue } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";
import { webhooksTrail } from "../webhooks/page.tsx";

/** Maps each value of the `done` query parameter to a message and the matching API call. */
const outcomes: Record<string, (webhook: Webhook) => [sentence: string, call: string]> = {
  changed: ({ id }) => ["Changed. The next attempt uses the new settings.", `PATCH /api/v1/webhooks/${id}`],
  disabled: ({ id }) => [
    "Disabled. The events of this webhook are held until they are redelivered.",
    `PATCH /api/v1/webhooks/${id} {"status": "disabled"}`,
  ],
  enabled: ({ id }) => [
    "Enabled. Held events are not sent automatically, so redeliver them.",
    `PATCH /api/v1/webhooks/${id} {"status": "active"}`,
  ],
  "sent-before": ({ id }) => ["This form was already sent, so nothing was done again.", `GET /api/v1/webhooks/${id}/deliveries`],
};

const tabsOf = ({ id }: Webhook) =>
  [
    ["Deliveries", `/webhooks/${id}`],
    ["Verify", `/webhooks/${id}/verify`],
    ["Settings", `/webhooks/${id}/settings`],
  ] as const;

/** A webhook, and whether the visitor may change it. */
export interface OpenedWebhook {
  webhook: Webhook;
  isManageable: boolean;
}

/** Reads the webhook of the path. Throws `not_found` if the webhook does not exist. */
export async function openWebhook(c: PageContext): Promise<OpenedWebhook> {
  const webhook = await readWebhook(contextOf(c), idOf(c));
  return { webhook, isManageable: visitorMay(c, "webhooks") && mayReadEvents(c, ...webhook.eventTypes) };
}

/** Responds with one tab of a webhook. Every tab has the actions of the webhook and the message of `done`. */
export function showTab(
  c: PageContext,
  { webhook, isManageable }: OpenedWebhook,
  { tab, formError }: { tab: ReturnType<typeof tabsOf>[number][0]; formError?: FormError | undefined },
  children: Child,
) {
  const { id, url, state } = webhook;
  const done = c.req.query("done") ?? "";
  // A bookmarked URL may contain an outcome that is no longer true.
  const isSo = ownValue({ disabled: state === "disabled", enabled: state === "active" }, done) ?? true;
  const outcome = isSo ? ownValue(outcomes, done)?.(webhook) : undefined;
  return showPage(
    c,
    {
      title: url,
      section: "Webhooks",
      trail: webhooksTrail,
      status: formError ? 422 : 200,
      action: isManageable && (
        <>
          {state === "active" && (
            <Action action={`/webhooks/${id}/test`} kind="main" hidden={{ nonce: newNonce() }}>
              Send test event
            </Action>
          )}
          {state === "disabled" ? (
            <Action action={`/webhooks/${id}/enable`}>Enable</Action>
          ) : (
            <Action action={`/webhooks/${id}/disable`}>Disable</Action>
          )}
          <ButtonLink href={`/webhooks/${id}/rotate-secret`}>Rotate secret</ButtonLink>
          <ButtonLink kind="danger" href={`/webhooks/${id}/delete`}>
            Delete
          </ButtonLink>
        </>
      ),
    },
    <>
      <Tabs label="Webhook" tabs={tabsOf(webhook)} here={tab} />
      {outcome && <Done call={outcome[1]}>{outcome[0]}</Done>}
      <Alert formError={formError} />
      {visitorMay(c, "webhooks") && !mayReadEvents(c, ...webhook.eventTypes) && (
        <Note>
          <p>
            This webhook receives events about members. Your role cannot read these events. An admin or an owner of the account can change
            the webhook.
          </p>
        </Note>
      )}
      {children}
    </>,
  );
}
