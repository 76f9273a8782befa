import { type SigningSecret, signingSecretsIn } from "./key-format.ts";
import { KeyVerifier } from "./verified-keys.ts";

type SigningEnv = Pick<Env, "KEY_SIGNING_SECRETS" | "KEY_SIGNING_SECRETS_2">;

interface Signing {
  text: string;
  secrets: readonly [SigningSecret, ...SigningSecret[]];
  keys: KeyVerifier;
}

/** The secrets that this isolate parsed most recently. The isolate parses the secrets again only if a binding changes. */
let latest: Signing | undefined;

function signingOf(env: SigningEnv): Signing {
  const text = `${env.KEY_SIGNING_SECRETS} ${env.KEY_SIGNING_SECRETS_2}`;
  if (latest?.text !== text) {
    const secrets = signingSecretsIn(env);
    latest = { text, secrets, keys: new KeyVerifier(secrets) };
  }
  return latest;
}

/** Returns the secrets that sign API keys. Throws if the secrets are missing or malformed. */
export const signingSecrets = (env: SigningEnv) => signingOf(env).secrets;

/** Returns the verifier that distinguishes this service's API keys from forged keys. */
export const keyVerifier = (env: SigningEnv): KeyVerifier => signingOf(env).keys;
