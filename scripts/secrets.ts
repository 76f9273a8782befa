import { createHash, randomBytes } from "node:crypto";

// The secrets of a Worker, on a laptop and deployed alike.

/** Those that `name:secret` pairs are in, each with its second place: see src/crypto/secrets.ts. */
const named = { KEY_SIGNING_SECRETS: "a", KEY_SIGNING_SECRETS_2: "b", WEBHOOK_SEALING_SECRETS: "a", WEBHOOK_SEALING_SECRETS_2: "b" };

export const secretNames = [...Object.keys(named), "OPERATOR_TOKENS"];

export const newSecret = (name: string): string => `${name}:${randomBytes(32).toString("base64url")}`;

const newOperatorToken = (): string => `dvop_${randomBytes(32).toString("base64url")}`;

/** What OPERATOR_TOKENS holds for a token. */
const operatorEntry = (name: string, token: string): string => `${name}:${createHash("sha256").update(token).digest("hex")}`;

/** Those that are not among the names that are `there`, made anew. `OPERATOR_TOKEN` is what the operator sends; the Worker has its hash, under the name `operator`. */
export function missingSecrets(there: readonly string[], operator: string): Record<string, string> {
  const made: Record<string, string> = {};
  for (const [place, name] of Object.entries(named)) if (!there.includes(place)) made[place] = newSecret(name);
  if (!there.includes("OPERATOR_TOKENS")) {
    made.OPERATOR_TOKEN = newOperatorToken();
    made.OPERATOR_TOKENS = operatorEntry(operator, made.OPERATOR_TOKEN);
  }
  return made;
}
