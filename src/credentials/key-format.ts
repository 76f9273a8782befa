import { type Mac, macWith } from "../crypto/hash.ts";
import { type NamedSecret, secretsIn } from "../crypto/secrets.ts";

// A secret key consists of `dvo_`, 16 public characters, `_`, 32 secret characters and an 8-character tag. The public part, the secret part
// and the tag are in base62. The first character of the tag names the signing secret. The other 7 characters come from an HMAC-SHA256 of
// all preceding characters, computed with the signing secret. Nobody can create a valid key without the signing secret. The service
// therefore rejects a forged key without calling a Durable Object or reading the database.

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const form = /^dvo_([0-9A-Za-z]{16})_[0-9A-Za-z]{32}([0-9A-Za-z])([0-9A-Za-z]{7})$/;
const macLength = 7;

/** A secret that signs the tags of keys. */
export type SigningSecret = NamedSecret;

/**
 * Returns the secrets that sign keys. The first secret signs new keys, and every secret verifies existing keys. Throws if the secrets are
 * missing or malformed.
 */
export const signingSecretsIn = (env: object) => secretsIn(env, "KEY_SIGNING_SECRETS");

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

export const newKeyId = (): string => `key_${randomBase62(16)}`;

export const isKeyId = (text: string): boolean => /^key_[0-9A-Za-z]{16}$/.test(text);

/** Returns the prefix and the public part of a secret key. These parts are not secret. */
export const prefixOf = (keyId: string): string => `dvo_${keyId.slice("key_".length)}`;

/** Returns the key id in the public part of a secret key. Does not check the format or the tag. */
export const statedIdOf = (secretKey: string): string => `key_${secretKey.slice("dvo_".length, "dvo_".length + 16)}`;

/** Returns a new secret key for a key id. The secret key is shown once. The service stores a hash (`hashOf`) instead of the secret key. */
export function newSecretKey(keyId: string, signing: SigningSecret): string {
  const signed = `${prefixOf(keyId)}_${randomBase62(32)}${signing.name}`;
  return signed + mac(signed, signing);
}

/** Returns the key id of a valid secret key, or null if the format or the tag is not valid. */
export function keyIdOf(secretKey: string, signing: readonly SigningSecret[]): string | null {
  const [, publicPart, name, tag] = form.exec(secretKey) ?? [];
  const signer = signing.find((candidate) => candidate.name === name);
  if (!publicPart || !tag || !signer) return null;
  return isSame(mac(secretKey.slice(0, -macLength), signer), tag) ? `key_${publicPart}` : null;
}

/** Compares two tags in constant time. */
function isSame(one: string, other: string): boolean {
  let difference = 0;
  for (let at = 0; at < macLength; at++) difference |= one.charCodeAt(at) ^ other.charCodeAt(at);
  return difference === 0;
}
