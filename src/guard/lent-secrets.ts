import { type AdmissionRequest, isLiveSecret, type KeyConfig } from "./decision.ts";

// For some minutes, a lent secret stands for the key's own. Only the guard knows it, so that every decision about it is made here. It ends with the secret that
// it stands for, by a rotation or a revocation. `standsFor`: the hash of the key's secret at that time. `until`: in milliseconds since the epoch.
export type LentSecret = Record<"secretHash" | "standsFor", string> & { until: number };

/** The maximum number of secrets that a key has lent at once. One more ends the oldest. */
const maxLent = 20;

/** Returns the lent secrets of a key with one more, without those that are over. */
export const withLent = (lent: readonly LentSecret[], more: LentSecret, now: number): LentSecret[] =>
  [...lent.filter(({ secretHash }) => secretHash !== more.secretHash), more].filter(({ until }) => now < until).slice(-maxLent);

/** Returns a request as if it had the key's own secret, if its secret is lent. It gets no lease, because no holder of leases knows its secret. */
export function withOwnSecret(lent: readonly LentSecret[], config: KeyConfig, request: AdmissionRequest, now: number): AdmissionRequest {
  if (isLiveSecret(config, request.secretHash, now)) return request;
  const isLent = lent.some((each) => each.secretHash === request.secretHash && each.standsFor === config.secretHash && now < each.until);
  return isLent ? { ...request, secretHash: config.secretHash, want: undefined } : request;
}
