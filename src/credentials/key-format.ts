import { secretsIn } from "../lib/crypto/secrets.ts";
import { brand } from "../lib/settings.ts";
import { formOf, newPublicPart, newSignedSecret, publicPartOf, type SigningSecret } from "./signed-secret.ts";

// The secret key of an API key is a signed secret. The settings of the team name its prefixes: new keys have the first, and keys with any of them are valid.

const { keyPrefixes } = brand;
/** The prefix of keys whose rows name none. */
const unnamedPrefix = "dvo";
const form = formOf(keyPrefixes);
const secretLength = 40;
const publicLength = 16;

/** The prefix of new keys, with the underscore after it. */
export const newKeyPrefix = `${keyPrefixes[0]}_`;

export type { SigningSecret } from "./signed-secret.ts";

/**
 * Returns the secrets that sign keys and service tokens. The first secret signs new ones, and every secret verifies existing ones. Throws if the
 * secrets are missing or malformed.
 */
export const signingSecretsIn = (env: object) => secretsIn(env, "KEY_SIGNING_SECRETS");

export const newKeyId = (): string => `key_${newPublicPart()}`;

export const isKeyId = (text: string): boolean => /^key_[0-9A-Za-z]{16}$/.test(text);

/** Returns whether a text has the exact form of a secret key. Does not check the tag. */
export const isKeyForm = (text: string): boolean => form.test(text);

/** Returns whether a text claims to be a secret key of this service. Does not check the format or the tag. */
export const looksLikeKey = (text: string): boolean => keyPrefixes.some((prefix) => text.startsWith(`${prefix}_`));

/** Returns the prefix and the public part of a secret key. These parts are not secret. `shownPrefix`: as the row of the key has it. */
export const prefixOf = ({ id, shownPrefix }: { id: string; shownPrefix: string | null }): string =>
  shownPrefix ?? `${unnamedPrefix}_${id.slice("key_".length)}`;

/** Returns what the row of a key stores of its secret key: the prefix and the public part, or null for the prefix that rows do not name. */
export const shownPrefixOf = (secretKey: string): string | null =>
  keyPrefixes[0] === unnamedPrefix ? null : secretKey.slice(0, -secretLength - 1);

/** Returns the id of the key of a whole secret key, or null for other text. Does not check the tag. */
export const idInKey = (text: string): string | null => (isKeyForm(text) ? statedIdOf(text) : null);

/** Returns the key id in the public part of a secret key. Does not check the format or the tag. */
export const statedIdOf = (secretKey: string): string => `key_${secretKey.slice(-secretLength - 1 - publicLength, -secretLength - 1)}`;

/** Returns a new secret key for a key id. The secret key is shown once. The service stores a hash (`hashOf`) instead of the secret key. */
export const newSecretKey = (keyId: string, signing: SigningSecret): string =>
  newSignedSecret(newKeyPrefix + keyId.slice("key_".length), signing);

/** Returns the key id of a valid secret key, or null if the format or the tag is not valid. */
export function keyIdOf(secretKey: string, signing: readonly SigningSecret[]): string | null {
  const publicPart = publicPartOf(secretKey, form, signing);
  return publicPart === null ? null : `key_${publicPart}`;
}
