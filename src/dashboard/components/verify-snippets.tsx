import { CodeTabs } from "./code-tabs.tsx";

const samples = [
  [
    "JavaScript",
    `import { Webhook } from "standardwebhooks";

const event = new Webhook(process.env.WEBHOOK_SECRET).verify(rawBody, request.headers);`,
  ],
  [
    "Python",
    `import os
from standardwebhooks import Webhook

event = Webhook(os.environ["WEBHOOK_SECRET"]).verify(raw_body, request.headers)`,
  ],
  [
    "Go",
    `wh, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
if err == nil {
    err = wh.Verify(rawBody, request.Header)
}`,
  ],
] as const;

/** Renders code samples in three languages. Each sample verifies a webhook request with the Standard Webhooks library. */
export const VerifySnippets = () => (
  <section class="panel" aria-labelledby="verify">
    <h2 id="verify">Verify the requests</h2>
    <p>
      Each request is signed according to Standard Webhooks. The signature in the header <code>webhook-signature</code> covers the raw body
      and the headers <code>webhook-id</code> and <code>webhook-timestamp</code>. The <code>webhook-id</code> is the id of the event, and is
      the same for every attempt. Use this id to process each event only once.
    </p>
    <CodeTabs name="verify" samples={samples} />
    <p>
      <a href="/docs/guides/webhooks">All about webhooks</a>
    </p>
  </section>
);
