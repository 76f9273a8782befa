import { allowsIp } from "./ip-list.ts";

/** What a guard knows of its key. Persisted in the object; D1 is where it comes from. */
export interface KeyConfig {
  version: number;
  accountId: string;
  accountName: string;
  name: string;
  state: "active" | "disabled" | "revoked";
  scopes: string[];
  hourlyLimit: number;
  allowedIps: string[];
  expiresAt: number | null;
  secretHash: string;
  previousSecretHash: string | null;
  overlapEndsAt: number | null;
}

/** One request's question to the guard. */
export interface AdmissionRequest {
  secretHash: string;
  ip: string;
  /** The scope that the route asks for; null where any key will do. */
  scope: string | null;
  /** False for a route that is answered even when the limit is reached, and uses none of it. */
  counted: boolean;
}

/** Why a guard lets a request not run. */
export const refusalCodes = [
  "invalid_key",
  "revoked_key",
  "disabled_key",
  "expired_key",
  "ip_not_allowed",
  "insufficient_scope",
  "rate_limit_exceeded",
] as const;
export type RefusalCode = (typeof refusalCodes)[number];

/** The guard's answer. `refusal` null means that the request may run. */
export interface Admission {
  refusal: RefusalCode | null;
  key: KeyFacts;
  rateLimit: RateLimit;
}

/** What an answer may say of a key. */
export type KeyFacts = Pick<KeyConfig, "accountId" | "accountName" | "name" | "scopes" | "expiresAt">;

export const factsOf = ({ accountId, accountName, name, scopes, expiresAt }: KeyConfig): KeyFacts => ({
  accountId,
  accountName,
  name,
  scopes,
  expiresAt,
});

/** A key's window as it stands after this request. `resetsAt`: milliseconds since the epoch. */
export interface RateLimit {
  limit: number;
  used: number;
  resetsAt: number;
}

/** Whether a secret is the key's own, or the former one within its overlap. */
export const isLiveSecret = (
  config: Pick<KeyConfig, "secretHash" | "previousSecretHash" | "overlapEndsAt">,
  secretHash: string,
  now: number,
): boolean =>
  secretHash === config.secretHash ||
  (secretHash === config.previousSecretHash && config.overlapEndsAt !== null && now < config.overlapEndsAt);

/** Everything that can refuse a request but the limit, in the order of the contract: secret, state, expiry, IP, scope. */
export function refusalOf(config: KeyConfig, request: AdmissionRequest, now: number): RefusalCode | null {
  if (!isLiveSecret(config, request.secretHash, now)) return "invalid_key";
  if (config.state === "revoked") return "revoked_key";
  if (config.state === "disabled") return "disabled_key";
  if (config.expiresAt !== null && now >= config.expiresAt) return "expired_key";
  if (!allowsIp(config.allowedIps, request.ip)) return "ip_not_allowed";
  if (request.scope !== null && !config.scopes.includes(request.scope)) return "insufficient_scope";
  return null;
}
