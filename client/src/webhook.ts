import { WebhookVerificationError as NotGenuine, Webhook as Verifier } from "standardwebhooks";
import type { WebhookEvent } from "./schema.ts";

type GivenHeaders = Headers | Record<string, string | string[] | undefined>;

/** A request that is not genuine: it was not signed with any of the secrets, or more than five minutes ago, or was changed on its way. */
export class WebhookVerificationError extends Error {
  override readonly name = "WebhookVerificationError";
}

const plain = (headers: GivenHeaders): Record<string, string> =>
  Object.fromEntries(
    (headers instanceof Headers ? [...headers] : Object.entries(headers)).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(" ") : value]],
    ),
  );

/**
 * Returns the event of a genuine request: one that was signed with a secret of the webhook (`whsec_...`) within the last five minutes. Takes several
 * secrets, of several webhooks or before and after a rotation. `rawBody`: as it came, not as it was parsed. Throws a `WebhookVerificationError`
 * otherwise.
 */
export function verifyWebhook(secrets: string | readonly string[], headers: GivenHeaders, rawBody: string | Uint8Array): WebhookEvent {
  const text = typeof rawBody === "string" ? rawBody : new TextDecoder().decode(rawBody);
  const all = typeof secrets === "string" ? [secrets] : secrets;
  if (all.length === 0) throw new TypeError("verifyWebhook needs a secret of the webhook, and got an empty list.");
  let reason = "";
  for (const secret of all) {
    const verifier = new Verifier(secret);
    try {
      return verifier.verify(text, plain(headers)) as WebhookEvent;
    } catch (error) {
      if (!(error instanceof NotGenuine)) throw error;
      reason = error.message;
    }
  }
  throw new WebhookVerificationError(reason);
}
