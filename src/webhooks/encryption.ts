import { type NamedSecret, secretsIn } from "../crypto/secrets.ts";

// Webhook secrets are needed to sign, so they cannot be hashed: they are kept encrypted, AES-256-GCM under a secret of the Worker.

/** The secrets that encrypt those of webhooks: the first what is new, all of them open. Throws where none is usable. */
export const encryptionSecrets = (env: object) => secretsIn(env, "WEBHOOK_SEALING_SECRETS");

const algorithm = "AES-GCM";
const ivBytes = 12;

const bytesOf = (text: string) => new TextEncoder().encode(text);

async function keyOf({ secret }: NamedSecret): Promise<CryptoKey> {
  const digest = await crypto.subtle.digest("SHA-256", bytesOf(`webhook secrets ${secret}`));
  return crypto.subtle.importKey("raw", digest, algorithm, false, ["encrypt", "decrypt"]);
}

/** Encrypts `text` for the thing named `owner`, which alone can be given it back: `name.iv.ciphertext`. */
export async function encrypt(text: string, owner: string, [first]: readonly [NamedSecret, ...NamedSecret[]]): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(ivBytes));
  const sealed = await crypto.subtle.encrypt({ name: algorithm, iv, additionalData: bytesOf(owner) }, await keyOf(first), bytesOf(text));
  return [first.name, Buffer.from(iv).toString("base64url"), Buffer.from(sealed).toString("base64url")].join(".");
}

/** What was sealed for `owner`. Throws where it was not, or where its secret is no longer among `secrets`. */
export async function decrypt(sealed: string, owner: string, secrets: readonly NamedSecret[]): Promise<string> {
  const [name = "", iv = "", content = ""] = sealed.split(".");
  const secret = secrets.find((candidate) => candidate.name === name);
  if (!secret) throw new Error(`a webhook secret was sealed under ${name}, which is not among the secrets of the Worker`);
  const opened = await crypto.subtle.decrypt(
    { name: algorithm, iv: Buffer.from(iv, "base64url"), additionalData: bytesOf(owner) },
    await keyOf(secret),
    Buffer.from(content, "base64url"),
  );
  return new TextDecoder().decode(opened);
}
