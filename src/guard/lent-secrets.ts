import { type AdmissionRequest, isLiveSecret, type KeyConfig } from "./decision.ts";

// For some minutes, a lent secret stands for the key's own. Only the guard knows it, so that every decision about it is made here. It ends with the secret that
// it stands for, and with a scope that the key gets: the role of the member who has it allowed the scopes of before.

/** `standsFor`: the hash of the key's secret. `memberId`: who has the lent one, or null. `until`: in milliseconds since the epoch. */
export interface LentSecret {
  secretHash: string;
  standsFor: string;
  scopes: readonly string[];
  memberId: string | null;
  until: number;
}

/** The maximum number of secrets that a key has lent at once. One more ends the oldest. */
const maxLent = 20;

/** Returns the lent secrets of a key with one more, without those that are over. */
export const withLent = (lent: readonly LentSecret[], more: LentSecret, now: number): LentSecret[] =>
  [...lent, more].filter(({ until }) => now < until).slice(-maxLent);

/** Returns the lent secret of a request, or undefined if it has none. */
export function lentOf(lent: readonly LentSecret[], config: KeyConfig, { secretHash }: AdmissionRequest, now: number) {
  if (lent.length === 0 || isLiveSecret(config, secretHash, now)) return undefined;
  const own = lent.find((each) => each.secretHash === secretHash && each.standsFor === config.secretHash && now < each.until);
  return own && config.scopes.every((scope) => own.scopes.includes(scope)) ? own : undefined;
}
