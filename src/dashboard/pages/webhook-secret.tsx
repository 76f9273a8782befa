import { Hono } from "hono";
import type { EventCatalogue } from "../../events/catalogue.ts";
import { secondMs } from "../../time/clock.ts";
import { readWebhook } from "../../webhooks/read-webhooks.ts";
import { Rotation } from "../../webhooks/webhook-inputs.ts";
import { rotateWebhookSecret } from "../../webhooks/write-webhooks.ts";
import { reading, webhookWriting } from "../acting.ts";
import { showPage } from "../components/layout.tsx";
import { Alert } from "../components/notice.tsx";
import { OverlapField } from "../components/overlap-field.tsx";
import { ShownBefore } from "../components/secret.tsx";
import { idOf, type PageContext, type PageEnv } from "../context.ts";
import { attempt, parseInput, readForm, type Sent } from "../forms.ts";
import { newNonce, runOnce } from "../once.ts";
import { showSigningSecret, webhooksTrail } from "./webhooks.tsx";

/** A new signing secret for a webhook. */
export function webhookSecretPages(catalogue: EventCatalogue) {
  const pages = new Hono<PageEnv>();

  const showForm = async (c: PageContext, { refused }: Sent = {}) => {
    const webhook = await readWebhook(reading(c), idOf(c));
    return showPage(
      c,
      {
        title: "Rotate the secret",
        section: "Webhooks",
        status: refused ? 422 : 200,
        trail: [...webhooksTrail, [webhook.url, `/webhooks/${webhook.id}`]],
      },
      <form class="panel form" method="post" action={`/webhooks/${webhook.id}/rotate-secret`}>
        <input type="hidden" name="nonce" value={newNonce()} />
        <Alert refused={refused} />
        <p>The webhook gets a new signing secret, which is shown once.</p>
        <OverlapField help="For so long each request carries a signature of both." />
        <button class="main" type="submit">
          Rotate secret
        </button>
      </form>,
    );
  };

  pages.get("/webhooks/:id/rotate-secret", (c) => showForm(c));

  pages.post("/webhooks/:id/rotate-secret", async (c) => {
    const form = await readForm(c);
    const parsed = parseInput(Rotation, { overlap_seconds: form.number("overlap_seconds") });
    if ("refused" in parsed) return showForm(c, { refused: parsed.refused });
    const overlapMs = parsed.input.overlap_seconds * secondMs;
    const rotated = await attempt(() =>
      runOnce(c, form, (commit) => rotateWebhookSecret(webhookWriting(c, catalogue, commit), idOf(c), overlapMs)),
    );
    if ("refused" in rotated) return showForm(c, { refused: rotated.refused });
    if ("repeated" in rotated.result)
      return showPage(
        c,
        { title: "Rotate the secret", section: "Webhooks", status: 409 },
        <ShownBefore path={`/webhooks/${idOf(c)}`} what="A new secret" />,
      );
    const { webhook, secret } = rotated.result.result;
    return showSigningSecret(c, {
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

  return pages;
}
