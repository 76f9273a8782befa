import { secretsIn } from "../lib/crypto/secrets.ts";
import { formOf, newPublicPart, newSignedSecret, publicPartOf, type SigningSecret } from "./signed-secret.ts";

// The secret key of an API key is a signed secret with the prefix `dvo`.

const form = formOf("dvo");

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
export const looksLikeKey = (text: string): boolean => text.startsWith("dvo_");

/** Returns the prefix and the public part of a secret key. These parts are not secret. */
export const prefixOf = (keyId: string): string => `dvo_${keyId.slice("key_".length)}`;

/** Returns the key id in the public part of a secret key. Does not check the format or the tag. */
export const statedIdOf = (secretKey: string): string => `key_${secretKey.slice("dvo_".length, "dvo_".length + 16)}`;

/** Returns a new secret key for a key id. The secret key is shown once. The service stores a hash (`hashOf`) instead of the secret key. */
export const newSecretKey = (keyId: string, signing: SigningSecret): string => newSignedSecret(prefixOf(keyId), signing);

/** Returns the key id of a valid secret key, or null if the format or the tag is not valid. */
export function keyIdOf(secretKey: string, signing: readonly SigningSecret[]): string | null {
  const publicPart = publicPartOf(secretKey, form, signing);
  return publicPart === null ? null : `key_${publicPart}`;
}
