import { createHash, randomBytes } from "node:crypto";

// Creates the secrets of a Worker, local or deployed.

/**
 * Maps each variable that contains `name:secret` pairs to the name of its first pair. Each kind of secret has two variables (src/crypto/secrets.ts).
 */
const named = { KEY_SIGNING_SECRETS: "a", KEY_SIGNING_SECRETS_2: "b", WEBHOOK_SEALING_SECRETS: "a", WEBHOOK_SEALING_SECRETS_2: "b" };

export const secretNames = [...Object.keys(named), "OPERATOR_TOKENS"];

export const newSecret = (name: string): string => `${name}:${randomBytes(32).toString("base64url")}`;

const newOperatorToken = (): string => `dvop_${randomBytes(32).toString("base64url")}`;

/** Returns the entry of a token in OPERATOR_TOKENS, with the SHA-256 of the token. */
const operatorEntry = (name: string, token: string): string => `${name}:${createHash("sha256").update(token).digest("hex")}`;

/**
 * Creates the secrets whose names are not in `there`. `OPERATOR_TOKEN` is the token that the operator sends. The Worker stores only the hash of the
 * token, under the name `operator`.
 */
export function missingSecrets(there: readonly string[], operator: string): Record<string, string> {
  const made: Record<string, string> = {};
  for (const [place, name] of Object.entries(named)) if (!there.includes(place)) made[place] = newSecret(name);
  if (!there.includes("OPERATOR_TOKENS")) {
    made.OPERATOR_TOKEN = newOperatorToken();
    made.OPERATOR_TOKENS = operatorEntry(operator, made.OPERATOR_TOKEN);
  }
  return made;
}
