import { macWith } from "../../lib/crypto/hash.ts";

// Signatures follow Standard Webhooks (https://www.standardwebhooks.com). A signature is the HMAC-SHA256 of the event id, the time and the
// body. The key is the webhook's secret.

const prefix = "whsec_";
const secretBytes = 32;

/** Returns a new secret: `whsec_` and 32 random bytes in base64. */
export const newWebhookSecret = (): string => prefix + Buffer.from(crypto.getRandomValues(new Uint8Array(secretBytes))).toString("base64");

/**
 * Returns the headers that identify and sign one attempt. `webhook-timestamp` is in seconds since the epoch. `webhook-signature` has one signature for each
 * valid secret, separated by spaces. `secrets`: all valid secrets of the webhook. During the overlap of a rotation, a webhook has two valid secrets.
 */
export function signatureHeaders(eventId: string, body: string, secrets: readonly string[], now: number) {
  const timestamp = String(Math.floor(now / 1000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), "base64");
    return `v1,${Buffer.from(macWith(key)(`${eventId}.${timestamp}.${body}`)).toString("base64")}`;
  });
  return { "webhook-id": eventId, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") };
}
