import { Webhook } from "standardwebhooks";
import type { webhooks } from "./schema.ts";

/** What webhooks are sent: decide by `type`. More types may come. */
export type WebhookEvent = {
  [Type in keyof webhooks]: webhooks[Type]["post"]["requestBody"]["content"]["application/json"] & { type: Type };
}[keyof webhooks];

type GivenHeaders = Headers | Record<string, string | string[] | undefined>;

const plain = (headers: GivenHeaders): Record<string, string> =>
  Object.fromEntries(
    (headers instanceof Headers ? [...headers] : Object.entries(headers)).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(" ") : value]],
    ),
  );

/**
 * The event of a genuine request: one that was signed with the webhook's secret (`whsec_...`) within the last five minutes. `rawBody`: as it
 * came, not as it was parsed. Throws a `WebhookVerificationError` for any other.
 */
export const verifyWebhook = (secret: string, headers: GivenHeaders, rawBody: string): WebhookEvent =>
  new Webhook(secret).verify(rawBody, plain(headers)) as WebhookEvent;
