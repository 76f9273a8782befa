import { timingSafeEqual } from "node:crypto";
import { macWith } from "../lib/crypto/hash.ts";
import type { NamedSecret } from "../lib/crypto/secrets.ts";

// A challenge is signed and contains its own expiry. Creating a challenge therefore writes nothing to the database, so visitors can request
// any number of challenges.

const timeBytes = 6;
const randomBytes = 16;
const macBytes = 20;

const macOf = (bytes: Uint8Array, purpose: string, { secret }: NamedSecret) =>
  macWith(`challenges ${secret}`)(Buffer.concat([Buffer.from(`${purpose}\n`), bytes])).subarray(0, macBytes);

/** Returns a challenge for a passkey to sign. The challenge is valid for one purpose until `endsAt`, in milliseconds since the epoch. */
export function makeChallenge(purpose: string, endsAt: number, [first]: readonly [NamedSecret, ...NamedSecret[]]): Uint8Array<ArrayBuffer> {
  const time = Buffer.alloc(timeBytes);
  time.writeUIntBE(endsAt, 0, timeBytes);
  const body = Buffer.concat([time, crypto.getRandomValues(new Uint8Array(randomBytes))]);
  return new Uint8Array(Buffer.concat([body, macOf(body, purpose, first)]));
}

/**
 * Returns the expiry of a base64url challenge, in milliseconds since the epoch. Returns null if the challenge is forged, has expired or was
 * created for another purpose.
 */
export function verifyChallenge(challenge: string, purpose: string, now: number, secrets: readonly NamedSecret[]): number | null {
  const bytes = Buffer.from(challenge, "base64url");
  if (bytes.length !== timeBytes + randomBytes + macBytes) return null;
  const [body, mac] = [bytes.subarray(0, -macBytes), bytes.subarray(-macBytes)];
  if (!secrets.some((secret) => timingSafeEqual(macOf(body, purpose, secret), mac))) return null;
  const endsAt = body.readUIntBE(0, timeBytes);
  return now < endsAt ? endsAt : null;
}
