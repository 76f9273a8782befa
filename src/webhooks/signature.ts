import { macWith } from "../crypto/hash.ts";

// Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over id, time and body, under a secret of the receiver's own.

const prefix = "whsec_";
const secretBytes = 32;

/** A new secret: `whsec_` and 32 random bytes in base64. */
export const newWebhookSecret = (): string => prefix + Buffer.from(crypto.getRandomValues(new Uint8Array(secretBytes))).toString("base64");

/** What a request is sent with. */
export interface SignatureHeaders {
  "webhook-id": string;
  /** Seconds since the epoch, at the moment of the attempt. */
  "webhook-timestamp": string;
  /** One signature for each secret, parted by spaces. */
  "webhook-signature": string;
}

/** The headers of one attempt. `secrets`: every live secret of the webhook, two while a rotation overlaps. */
export function signatureHeaders(eventId: string, body: string, secrets: readonly string[], now: number): SignatureHeaders {
  const timestamp = String(Math.floor(now / 1000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), "base64");
    return `v1,${Buffer.from(macWith(key)(`${eventId}.${timestamp}.${body}`)).toString("base64")}`;
  });
  return { "webhook-id": eventId, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") };
}
