import { type SigningSecret, signingSecretsIn } from "./key-format.ts";
import { VerifiedKeys } from "./verified-keys.ts";

type SigningEnv = Pick<Env, "KEY_SIGNING_SECRETS" | "KEY_SIGNING_SECRETS_2">;

interface Signing {
  text: string;
  secrets: readonly [SigningSecret, ...SigningSecret[]];
  keys: VerifiedKeys;
}

/** Read from the binding once an isolate. */
let latest: Signing | undefined;

function signingOf(env: SigningEnv): Signing {
  const text = `${env.KEY_SIGNING_SECRETS} ${env.KEY_SIGNING_SECRETS_2}`;
  if (latest?.text !== text) {
    const secrets = signingSecretsIn(env);
    latest = { text, secrets, keys: new VerifiedKeys(secrets) };
  }
  return latest;
}

/** The secrets that sign API keys. Throws where none is usable. */
export const signingSecrets = (env: SigningEnv) => signingOf(env).secrets;

/** What tells keys that were made here from others. */
export const verifiedKeys = (env: SigningEnv): VerifiedKeys => signingOf(env).keys;
