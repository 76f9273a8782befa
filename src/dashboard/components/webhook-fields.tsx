import { maxUrl } from "../../webhooks/subscriptions/url-rules.ts";
import type { Webhook } from "../../webhooks/subscriptions/webhook.ts";
import type { Form, FormError } from "../forms.ts";
import { EventChoices } from "./event-choices.tsx";
import { TextField } from "./fields.tsx";

export const WebhookFields = ({
  form,
  formError,
  ticked,
  webhook,
}: {
  form: Form;
  formError?: FormError | undefined;
  ticked: readonly string[];
  webhook?: Webhook;
}) => (
  <>
    <TextField
      form={form}
      formError={formError}
      name="url"
      label="URL"
      type="url"
      value={webhook?.url}
      required
      maxlength={maxUrl}
      placeholder="https://hooks.example.com/overview"
      help="Must be a public https URL."
    />
    <TextField form={form} formError={formError} name="description" label="Description" value={webhook?.description} maxlength={500} />
    <EventChoices formError={formError} ticked={ticked} />
  </>
);

/** Returns the fields of a webhook form in the input format of the API. */
export const webhookInputOf = (form: Form) => ({
  url: form.text("url"),
  description: form.text("description"),
  event_types: form.all("event_types"),
});
