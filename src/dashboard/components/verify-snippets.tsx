import { brand } from "../../lib/settings.ts";
import { CodeTabs } from "./code-tabs.tsx";

/** Returns the samples for a receiver at a path. */
const samplesAt = (path: string) =>
  [
    [
      "JavaScript",
      `// Packages: express, standardwebhooks
import express from "express";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.${brand.secretVariable});
const app = express();
app.post(${JSON.stringify(path)}, express.raw({ type: "*/*" }), (request, response) => {
  // Throws if the signature is wrong.
  const event = webhook.verify(request.body, request.headers);
  console.log(event.type);
  response.sendStatus(204);
});
app.listen(4000);`,
    ],
    [
      "Python",
      `# Packages: flask, standardwebhooks
import os
from flask import Flask, request
from standardwebhooks import Webhook

app = Flask(__name__)
webhook = Webhook(os.environ["${brand.secretVariable}"])

@app.post(${JSON.stringify(path)})
def receive():
    # Raises an exception if the signature is wrong.
    event = webhook.verify(request.get_data(as_text=True), dict(request.headers))
    print(event["type"])
    return "", 204`,
    ],
    [
      "Go",
      `// go get github.com/standard-webhooks/standard-webhooks/libraries/go
func receive(w http.ResponseWriter, r *http.Request) {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("${brand.secretVariable}"))
	body, _ := io.ReadAll(r.Body)
	if err != nil || webhook.Verify(body, r.Header) != nil {
		http.Error(w, "wrong signature", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}`,
    ],
  ] as const;

/** Renders code samples in three languages. Each sample verifies a request of the webhook with the Standard Webhooks library. */
export const VerifySnippets = ({ url }: { url: string }) => (
  <section class="panel" aria-labelledby="verify">
    <h2 id="verify">Verify the requests</h2>
    <p>
      Each request is signed according to Standard Webhooks. The signature in the header <code>webhook-signature</code> covers the raw body
      and the headers <code>webhook-id</code> and <code>webhook-timestamp</code>. The <code>webhook-id</code> is the id of the event, and is
      the same for every attempt. Use this id to process each event only once.
    </p>
    <CodeTabs name="verify" samples={samplesAt(new URL(url).pathname)} />
    <p>
      <a href="/docs/guides/webhooks">All about webhooks</a>
    </p>
  </section>
);
