import { WebhookVerificationError as NotGenuine, Webhook as Verifier } from "standardwebhooks";
import type { WebhookEvent } from "./schema.ts";

type GivenHeaders = Headers | Record<string, string | string[] | undefined>;

/**
 * This error is thrown if a webhook request has no valid signature. The error is also thrown if the timestamp is more than five minutes in the
 * past or in the future.
 */
export class WebhookVerificationError extends Error {
  override readonly name = "WebhookVerificationError";
}

const plain = (headers: GivenHeaders): Record<string, string> =>
  Object.fromEntries(
    (headers instanceof Headers ? [...headers] : Object.entries(headers)).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(" ") : value]],
    ),
  );

/** A webhook secret. Undefined and empty secrets are ignored. */
type GivenSecret = string | undefined;

/**
 * Verifies a webhook request and returns its event. The request must have been signed with one of the secrets (`whsec_...`) in the last five
 * minutes. If you have several webhooks, or while you rotate a secret, pass several secrets. Undefined and empty secrets are ignored. `rawBody`
 * is the request body before it is parsed. Throws a `WebhookVerificationError` if the verification fails. Throws a `TypeError` if no secret is
 * given or if a secret has the wrong format.
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
