import { timingSafeEqual } from "node:crypto";
import { macWith } from "../crypto/hash.ts";
import type { NamedSecret } from "../crypto/secrets.ts";

// A challenge carries its own end and is signed, so creating one writes nothing, and a visitor can request any number of them.

const timeBytes = 6;
const randomBytes = 16;
const macBytes = 20;

const macOf = (bytes: Uint8Array, purpose: string, { secret }: NamedSecret) =>
  macWith(`challenges ${secret}`)(Buffer.concat([Buffer.from(`${purpose}\n`), bytes])).subarray(0, macBytes);

/** What a passkey is asked to sign, until then and for one purpose. */
export function makeChallenge(purpose: string, endsAt: number, [first]: readonly [NamedSecret, ...NamedSecret[]]): Uint8Array<ArrayBuffer> {
  const time = Buffer.alloc(timeBytes);
  time.writeUIntBE(endsAt, 0, timeBytes);
  const body = Buffer.concat([time, crypto.getRandomValues(new Uint8Array(randomBytes))]);
  return new Uint8Array(Buffer.concat([body, macOf(body, purpose, first)]));
}

/** When a challenge ends, base64url as browsers send it; null where it is none of ours, was made for something else, or has ended. */
export function endOfChallenge(challenge: string, purpose: string, now: number, secrets: readonly NamedSecret[]): number | null {
  const bytes = Buffer.from(challenge, "base64url");
  if (bytes.length !== timeBytes + randomBytes + macBytes) return null;
  const [body, mac] = [bytes.subarray(0, -macBytes), bytes.subarray(-macBytes)];
  if (!secrets.some((secret) => timingSafeEqual(macOf(body, purpose, secret), mac))) return null;
  const endsAt = body.readUIntBE(0, timeBytes);
  return now < endsAt ? endsAt : null;
}
