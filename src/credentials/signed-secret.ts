import { type Mac, macWith } from "../lib/crypto/hash.ts";
import type { NamedSecret } from "../lib/crypto/secrets.ts";

// API keys and service tokens are signed secrets. A signed secret consists of a prefix, `_`, 16 public characters, `_`, 32 secret characters and an 8-character
// tag. The public part, the secret part and the tag are in base62. The first character of the tag names the signing secret. The other 7 characters come from an
// HMAC-SHA256 of all preceding characters, computed with the signing secret. Nobody can create a valid signed secret without the signing secret. The service
// therefore rejects a forged one without calling a Durable Object or reading the database.

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const macLength = 7;

/** A secret that signs the tags of signed secrets. */
export type SigningSecret = NamedSecret;

export const formOf = (prefixes: readonly string[]): RegExp =>
  new RegExp(`^(?:${prefixes.join("|")})_([0-9A-Za-z]{16})_[0-9A-Za-z]{32}([0-9A-Za-z])([0-9A-Za-z]{7})$`);

/** Returns `length` random base62 characters. All characters are equally likely. */
function randomBase62(length: number): string {
  let out = "";
  while (out.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length * 2))) {
      if (byte < 248 && out.length < length) out += alphabet[byte % 62];
    }
  }
  return out;
}

/** The prepared HMAC of each signing secret. */
const macs = new WeakMap<SigningSecret, Mac>();

/** Returns the prepared HMAC of a signing secret. */
function macOf(signing: SigningSecret): Mac {
  const known = macs.get(signing) ?? macWith(signing.secret);
  macs.set(signing, known);
  return known;
}

function mac(signed: string, signing: SigningSecret): string {
  const digest = new DataView(macOf(signing)(signed).buffer);
  let rest = digest.getUint16(0) * 2 ** 32 + digest.getUint32(2);
  let out = "";
  for (let i = 0; i < macLength; i++) {
    out = alphabet[rest % 62] + out;
    rest = Math.floor(rest / 62);
  }
  return out;
}

export const newPublicPart = (): string => randomBase62(16);

/** Returns a new signed secret. `start`: the prefix and the public part. */
export function newSignedSecret(start: string, signing: SigningSecret): string {
  const signed = `${start}_${randomBase62(32)}${signing.name}`;
  return signed + mac(signed, signing);
}

/** Returns the public part of a signed secret, or null if the form or the tag is not valid. */
export function publicPartOf(text: string, form: RegExp, signing: readonly SigningSecret[]): string | null {
  const [, publicPart, name, tag] = form.exec(text) ?? [];
  const signer = signing.find((candidate) => candidate.name === name);
  if (!publicPart || !tag || !signer) return null;
  return isSame(mac(text.slice(0, -macLength), signer), tag) ? publicPart : null;
}

/** Compares two tags in constant time. */
function isSame(one: string, other: string): boolean {
  let difference = 0;
  for (let at = 0; at < macLength; at++) difference |= one.charCodeAt(at) ^ other.charCodeAt(at);
  return difference === 0;
}
