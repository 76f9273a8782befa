import { type AdmissionRequest, isLiveSecret, type KeyConfig } from "./decision.ts";

// A temporary secret stands for the key's own for some minutes. Only the guard knows it, and makes every decision about it. It ends with the secret that it
// stands for. It also ends when the key gets a scope, because the role of its member was checked against the scopes of before.

/** `standsFor`: the hash of the key's secret. `memberId`: who has the temporary one, or null. `until`: in milliseconds since the epoch. */
export interface TemporarySecret {
  secretHash: string;
  standsFor: string;
  scopes: readonly string[];
  memberId: string | null;
  until: number;
}

/** The maximum number of temporary secrets of a key. One more ends the oldest. */
const maxSecrets = 20;

/** Returns the temporary secrets of a key with one more, without those that are over. */
export const withTemporarySecret = (secrets: readonly TemporarySecret[], more: TemporarySecret, now: number): TemporarySecret[] =>
  [...secrets, more].filter(({ until }) => now < until).slice(-maxSecrets);

/** Returns the temporary secret of a request, or undefined if it has none. */
export function temporarySecretOf(secrets: readonly TemporarySecret[], config: KeyConfig, { secretHash }: AdmissionRequest, now: number) {
  if (secrets.length === 0 || isLiveSecret(config, secretHash, now)) return undefined;
  const own = secrets.find((each) => each.secretHash === secretHash && each.standsFor === config.secretHash && now < each.until);
  return own && config.scopes.every((scope) => own.scopes.includes(scope)) ? own : undefined;
}
