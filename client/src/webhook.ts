import { WebhookVerificationError as NotGenuine, Webhook as Verifier } from "standardwebhooks";
import type { WebhookEvent } from "./schema.ts";

type GivenHeaders = Headers | Record<string, string | string[] | undefined>;

/** A webhook request without a valid signature, or with a timestamp that is more than five minutes off. */
export class WebhookVerificationError extends Error {
  override readonly name = "WebhookVerificationError";
}

const plain = (headers: GivenHeaders): Record<string, string> =>
  Object.fromEntries(
    (headers instanceof Headers ? [...headers] : Object.entries(headers)).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(" ") : value]],
    ),
  );

/** A webhook secret. Undefined and empty secrets are skipped. */
type GivenSecret = string | undefined;

/**
 * Returns the event of a genuine webhook request. A genuine request was signed with one of the secrets (`whsec_...`) in the last five minutes. Pass
 * several secrets if you have several webhooks, or during a secret rotation. Undefined and empty secrets are skipped. `rawBody`: the body before
 * parsing. Throws a `WebhookVerificationError` if the request is not genuine. Throws a `TypeError` if no secret is given or a secret has the wrong
 * form.
 */
export function verifyWebhook(
  secrets: GivenSecret | readonly GivenSecret[],
  headers: GivenHeaders,
  rawBody: string | Uint8Array,
): WebhookEvent {
  const text = typeof rawBody === "string" ? rawBody : new TextDecoder().decode(rawBody);
  const verifiers = [secrets].flat().flatMap((secret) => (secret ? [verifierOf(secret)] : []));
  if (verifiers.length === 0) throw new TypeError("verifyWebhook needs a secret of the webhook, and got none.");
  let reason = "";
  for (const verifier of verifiers) {
    try {
      return verifier.verify(text, plain(headers)) as WebhookEvent;
    } catch (error) {
      if (!(error instanceof NotGenuine || error instanceof SyntaxError)) throw error;
      reason = error.message;
    }
  }
  throw new WebhookVerificationError(reason);
}

function verifierOf(secret: string): Verifier {
  try {
    return new Verifier(secret);
  } catch (cause) {
    throw new TypeError("verifyWebhook got an invalid secret. Webhook secrets begin with whsec_.", { cause });
  }
}
