import { type NamedSecret, secretsIn } from "../../lib/crypto/secrets.ts";

// Webhook secrets cannot be hashed, because signing needs the secrets themselves. The database stores each webhook secret encrypted, with
// AES-256-GCM and a secret of the Worker.

/**
 * Returns the Worker's secrets for encrypting webhook secrets. Encryption uses the first secret. Decryption can use any of the secrets.
 * Throws if no secret is usable.
 */
export const encryptionSecrets = (env: object) => secretsIn(env, "WEBHOOK_ENCRYPTION_SECRETS");

const algorithm = "AES-GCM";
const ivBytes = 12;

const bytesOf = (text: string) => new TextEncoder().encode(text);

async function keyOf({ secret }: NamedSecret): Promise<CryptoKey> {
  const digest = await crypto.subtle.digest("SHA-256", bytesOf(`webhook secrets ${secret}`));
  return crypto.subtle.importKey("raw", digest, algorithm, false, ["encrypt", "decrypt"]);
}

/**
 * Encrypts `text` for the resource `owner`. Decryption fails for any other owner. Returns `name.iv.ciphertext`. The first part is the name
 * of the secret that was used.
 */
export async function encrypt(text: string, owner: string, [first]: readonly [NamedSecret, ...NamedSecret[]]): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(ivBytes));
  const encrypted = await crypto.subtle.encrypt({ name: algorithm, iv, additionalData: bytesOf(owner) }, await keyOf(first), bytesOf(text));
  return [first.name, Buffer.from(iv).toString("base64url"), Buffer.from(encrypted).toString("base64url")].join(".");
}

/**
 * Decrypts text that was encrypted for `owner`. Throws if the text was encrypted for another owner, or if `secrets` does not contain the
 * secret that was used.
 */
export async function decrypt(encrypted: string, owner: string, secrets: readonly NamedSecret[]): Promise<string> {
  const [name = "", iv = "", content = ""] = encrypted.split(".");
  const secret = secrets.find((candidate) => candidate.name === name);
  if (!secret) throw new Error(`a webhook secret was encrypted with ${name}, which is not among the secrets of the Worker`);
  const opened = await crypto.subtle.decrypt(
    { name: algorithm, iv: Buffer.from(iv, "base64url"), additionalData: bytesOf(owner) },
    await keyOf(secret),
    Buffer.from(content, "base64url"),
  );
  return new TextDecoder().decode(opened);
}
