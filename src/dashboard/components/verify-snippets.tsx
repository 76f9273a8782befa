import { Code } from "./secret.tsx";

/** Renders code in three languages that verifies a webhook request with the Standard Webhooks library. */
export const VerifySnippets = () => (
  <section class="panel" aria-labelledby="verify">
    <h2 id="verify">Verify what arrives</h2>
    <p>
      Each request is signed as Standard Webhooks say: <code>webhook-id</code>, <code>webhook-timestamp</code> and{" "}
      <code>webhook-signature</code>, over the raw body. The id is the event’s and the same on every attempt: use it to take each event
      once.
    </p>
    <h3>JavaScript</h3>
    <Code label="In JavaScript">{`import { Webhook } from "standardwebhooks";

const event = new Webhook(process.env.WEBHOOK_SECRET).verify(rawBody, request.headers);`}</Code>
    <h3>Python</h3>
    <Code label="In Python">{`import os
from standardwebhooks import Webhook

event = Webhook(os.environ["WEBHOOK_SECRET"]).verify(raw_body, request.headers)`}</Code>
    <h3>Go</h3>
    <Code label="In Go">{`wh, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
if err == nil {
    err = wh.Verify(rawBody, request.Header)
}`}</Code>
  </section>
);
