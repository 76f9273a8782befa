import { requestOrigin } from "../../../http/request-url.ts";
import { type Key, statusOf } from "../../../keys/key.ts";
import { brand } from "../../../lib/settings.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { visitorMay } from "../../access/permissions.tsx";
import { CodeTabs } from "../../components/code-tabs.tsx";
import { Submit, TextField } from "../../components/fields.tsx";
import { KeyText } from "../../components/key-list.tsx";
import { NameLink } from "../../components/name-link.tsx";
import type { PageContext } from "../../context.ts";
import { firstCallSamples } from "../../first-call-samples.ts";
import { newNonce } from "../../form-idempotency.ts";
import { Form } from "../../forms.ts";

/** Renders the form for the first key, or names the newest key that a client can use. */
const FirstKey = ({ c, firstKey }: { c: PageContext; firstKey: Key | undefined }) => {
  if (firstKey !== undefined)
    return (
      <p>
        Use your key <NameLink href={`/keys/${firstKey.id}`} name={firstKey.name} /> <KeyText keyRow={firstKey} />. If you no longer have
        its secret, <a href="/keys/new">create another key</a>.
      </p>
    );
  if (!visitorMay(c, "keys")) return <p>An owner or admin of the account can create a key.</p>;
  return (
    <form class="form" method="post" action="/keys">
      <input type="hidden" name="nonce" value={newNonce()} />
      <TextField form={new Form(new Map([["name", ["Development"]]]))} name="name" label="Name" required maxlength={100} />
      <Submit>Create key</Submit>
    </form>
  );
};

/** Renders the way to the first request of an account: a key, a call, and perhaps a webhook. Below it, a line for each part of the overview. */
export const FirstCall = ({
  c,
  keys,
  webhooks,
  now,
}: {
  c: PageContext;
  keys: readonly Key[];
  webhooks: readonly Webhook[];
  now: number;
}) => {
  const firstKey = keys.filter((key) => statusOf(key, now) === "active").toSorted((one, other) => other.createdAt - one.createdAt)[0];
  return (
    <>
      <ol class="first-call">
        <li class="panel">
          <h2>1. Create a key</h2>
          <FirstKey c={c} firstKey={firstKey} />
        </li>
        <li class="panel">
          <h2>2. Call the API</h2>
          <p>
            Put the key into the environment variable <code>{brand.keyVariable}</code>.
          </p>
          <CodeTabs name="first-call" samples={firstCallSamples(requestOrigin(c))} />
          {firstKey && (
            <p data-live={`/keys/${firstKey.id}/first-request`} aria-live="polite">
              Waiting for the first request with this key.
            </p>
          )}
          <div data-first-request />
        </li>
        <li class="panel">
          <h2>3. Add a webhook, if you like</h2>
          <p>
            {webhooks.length === 0 ? (
              <>
                Events of your account can be sent to you. <a href="/webhooks/new">Add a webhook</a>
              </>
            ) : (
              <>
                You have a webhook. <a href="/webhooks">View it</a>
              </>
            )}
          </p>
        </li>
      </ol>
      <p>
        <a href="/?skip=1">Skip to the overview</a>
      </p>
      <section class="panel later" aria-label="What this page shows later">
        <h2>API Usage - Last 30 Days</h2>
        <p>Requests, success rate, response time and limits, from the first request on.</p>
        <h2>Recent Activity</h2>
        <p>Each request a few seconds after its response, and the reason if it was refused.</p>
        <h2>API Keys</h2>
        <p>
          <a href="/keys">All keys</a> with their scopes, limits and last use.
        </p>
        <h2>Webhooks</h2>
        <p>
          <a href="/webhooks">All webhooks</a> with their deliveries.
        </p>
        <h2>Documentation</h2>
        <p>
          <a href={brand.docsUrl || "/docs"}>Guides and reference</a>
        </p>
      </section>
    </>
  );
};
