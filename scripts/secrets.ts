import { createHash, randomBytes } from "node:crypto";

// Creates the secrets of a local or deployed Worker.

/**
 * Maps each variable to the name of its first secret. The variables contain pairs of the form `name:secret`. Each kind of secret has two
 * variables (src/lib/crypto/secrets.ts).
 */
const named = { KEY_SIGNING_SECRETS: "a", KEY_SIGNING_SECRETS_2: "b", WEBHOOK_ENCRYPTION_SECRETS: "a", WEBHOOK_ENCRYPTION_SECRETS_2: "b" };

export const secretNames = [...Object.keys(named), "OPERATOR_TOKENS"];

export const newSecret = (name: string): string => `${name}:${randomBytes(32).toString("base64url")}`;

const newOperatorToken = (): string => `dvop_${randomBytes(32).toString("base64url")}`;

/** Returns the entry for a token in OPERATOR_TOKENS. The entry contains a name and the SHA-256 of the token. */
const operatorEntry = (name: string, token: string): string => `${name}:${createHash("sha256").update(token).digest("hex")}`;

/**
 * `there` lists the names of the existing secrets. Creates all other secrets. `OPERATOR_TOKEN` is the token that the operator sends. The
 * Worker stores only the hash of this token. `operator` is the name for the hash. `kept`: a token that this machine has already. It is used instead of a
 * new one.
 */
export function missingSecrets(there: readonly string[], operator: string, kept?: string): Record<string, string> {
  const made: Record<string, string> = {};
  for (const [place, name] of Object.entries(named)) if (!there.includes(place)) made[place] = newSecret(name);
  if (!there.includes("OPERATOR_TOKENS")) {
    const token = kept ?? newOperatorToken();
    if (kept === undefined) made.OPERATOR_TOKEN = token;
    made.OPERATOR_TOKENS = operatorEntry(operator, token);
  }
  return made;
}
