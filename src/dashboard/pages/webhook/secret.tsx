import { Hono } from "hono";
import { secondMs } from "../../../lib/time/clock.ts";
import { rotateWebhookSecret } from "../../../webhooks/subscriptions/change-webhook.ts";
import { readWebhook } from "../../../webhooks/subscriptions/read-webhooks.ts";
import { WebhookRotation } from "../../../webhooks/subscriptions/schemas.ts";
import { needs } from "../../access/needs.ts";
import { ButtonLink, Submit } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { Alert } from "../../components/notice.tsx";
import { OverlapField } from "../../components/overlap-field.tsx";
import { showShownBefore } from "../../components/secret.tsx";
import { idOf, type PageContext, type PageEnv } from "../../context.ts";
import { newNonce, runFormIdempotently } from "../../form-idempotency.ts";
import { attempt, parseInput, readForm, type Sent } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";
import { showSigningSecret, trailOf } from "../webhooks/page.tsx";

/** The pages that rotate the signing secret of a webhook. */
export const webhookSecretPages = new Hono<PageEnv>();

const showForm = async (c: PageContext, { formError }: Sent = {}) => {
  const webhook = await readWebhook(contextOf(c), idOf(c));
  return showPage(
    c,
    {
      title: "Rotate the secret",
      section: "Webhooks",
      status: formError ? 422 : 200,
      trail: trailOf(webhook),
    },
    <form class="panel form" method="post" action={`/webhooks/${webhook.id}/rotate-secret`}>
      <input type="hidden" name="nonce" value={newNonce()} />
      <Alert formError={formError} />
      <p>The webhook gets a new signing secret, which is shown once.</p>
      <OverlapField help="During this time, each request has a signature for the old secret and for the new secret." />
      <div class="buttons">
        <Submit>Rotate secret</Submit>
        <ButtonLink href={`/webhooks/${webhook.id}/settings`}>Cancel</ButtonLink>
      </div>
    </form>,
  );
};

webhookSecretPages.get("/webhooks/:id/rotate-secret", needs("webhooks"), (c) => showForm(c));

webhookSecretPages.post("/webhooks/:id/rotate-secret", needs("webhooks", "always"), async (c) => {
  const form = await readForm(c);
  const parsed = parseInput(WebhookRotation, { overlap_seconds: form.number("overlap_seconds") });
  if ("formError" in parsed) return showForm(c, { formError: parsed.formError });
  const overlapMs = parsed.input.overlap_seconds * secondMs;
  const rotated = await attempt(() =>
    runFormIdempotently(c, form, (commit) => rotateWebhookSecret(contextOf(c, commit), idOf(c), overlapMs)),
  );
  if ("formError" in rotated) return showForm(c, { formError: rotated.formError });
  if ("repeated" in rotated.result)
    return showShownBefore(c, { title: "Rotate the secret", section: "Webhooks", what: "A new secret", path: `/webhooks/${idOf(c)}` });
  const { webhook, secret } = rotated.result.result;
  return showSigningSecret(c, {
    title: "Copy the signing secret now",
    webhook,
    secret,
    call: `POST /api/v1/webhooks/${webhook.id}/rotate-secret {"overlap_seconds": ${parsed.input.overlap_seconds}}`,
    done:
      overlapMs > 0
        ? "Rotated. Until the overlap ends, requests are signed with both secrets."
        : "Rotated. Requests are signed only with the new secret.",
  });
});
