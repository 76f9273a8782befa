import { type Mac, macWith } from "../crypto/hash.ts";
import { type NamedSecret, secretsIn } from "../crypto/secrets.ts";

// `dvo_` + 16 public characters + `_` + 32 of secret + 8 of tag, all base62. The tag's first character names the signing
// secret; the other 7 are an HMAC-SHA256 under that secret over everything before them. Without the signing secret nobody
// can make a key that passes here, so a made-up one costs no Durable Object and no row.

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const form = /^dvo_([0-9A-Za-z]{16})_[0-9A-Za-z]{32}([0-9A-Za-z])([0-9A-Za-z]{7})$/;
const macLength = 7;

/** Signs the tags of keys. */
export type SigningSecret = NamedSecret;

/** The secrets that sign keys: the first signs new ones, all of them verify. Throws where none is usable. */
export const signingSecretsIn = (env: object) => secretsIn(env, "KEY_SIGNING_SECRETS");

/** `length` random base62 characters, each equally likely. */
function randomBase62(length: number): string {
  let out = "";
  while (out.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length * 2))) {
      if (byte < 248 && out.length < length) out += alphabet[byte % 62];
    }
  }
  return out;
}

/** The prepared HMAC of each secret. */
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

/** What a secret key of that id begins with: all of it that may be shown. */
export const prefixOf = (keyId: string): string => `dvo_${keyId.slice("key_".length)}`;

/** The id of the key that a secret key says it belongs to, whether or not its form and tag are ours. */
export const statedIdOf = (secretKey: string): string => `key_${secretKey.slice("dvo_".length, "dvo_".length + 16)}`;

/** A new secret key for the key of that id. It is shown once; only `hashOf` it is kept. */
export function newSecretKey(keyId: string, signing: SigningSecret): string {
  const signed = `${prefixOf(keyId)}_${randomBase62(32)}${signing.name}`;
  return signed + mac(signed, signing);
}

/** The id of the key that a secret key belongs to, or null where its form or tag is not ours. */
export function keyIdOf(secretKey: string, signing: readonly SigningSecret[]): string | null {
  const [, publicPart, name, tag] = form.exec(secretKey) ?? [];
  const signer = signing.find((candidate) => candidate.name === name);
  if (!publicPart || !tag || !signer) return null;
  return isSame(mac(secretKey.slice(0, -macLength), signer), tag) ? `key_${publicPart}` : null;
}

/** Compares two tags in a time that does not depend on where they differ. */
function isSame(one: string, other: string): boolean {
  let difference = 0;
  for (let at = 0; at < macLength; at++) difference |= one.charCodeAt(at) ^ other.charCodeAt(at);
  return difference === 0;
}
