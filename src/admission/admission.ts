import { firstStore } from "../activity/databases.ts";
import type { FailureContent } from "../errors/failure.ts";
import { type AddressRange, allowsIp } from "../net/ip-list.ts";

/** What a guard knows of its key. Persisted in the object; D1 is where it comes from. */
export interface KeyConfig {
  version: number;
  /** A random id of the row's history. It distinguishes two histories of a key that have the same version. */
  revision: string;
  accountId: string;
  accountName: string;
  /** The binding of the database that has the account's log. Absent in what a guard from before there were several has, or answers. */
  activityStore?: string;
  name: string;
  state: "active" | "disabled" | "revoked";
  scopes: string[];
  hourlyLimit: number;
  allowedIps: string[];
  expiresAt: number | null;
  secretHash: string;
  last4: string;
  previousSecretHash: string | null;
  overlapEndsAt: number | null;
  /** Since when the account is suspended. Absent in what a guard from before that was possible has. */
  suspendedAt?: number | null;
}

// A Worker and a guard of two releases meet during every rollout, in either direction. So both are asked and answered with objects
// of named members: what is not known is ignored, what is added later is optional.

/** One request's question to the guard. */
export interface AdmissionRequest {
  secretHash: string;
  ip: string;
  /** The scope that the route asks for; null where any key will do. */
  scope: string | null;
  /** False for a route that is answered even when the limit is reached, and uses none of it. */
  counted: boolean;
}

/** Why a guard refuses a request. */
export const denialCodes = [
  "invalid_key",
  "revoked_key",
  "disabled_key",
  "expired_key",
  "account_suspended",
  "ip_not_allowed",
  "insufficient_scope",
  "rate_limit_exceeded",
] as const;
export type DenialCode = (typeof denialCodes)[number];

/** The guard's answer. `refusal` null means that the request may run. */
export interface Admission {
  refusal: DenialCode | null;
  key: KeyFacts;
  rateLimit: RateLimit;
  /** Which of the key's secrets the request came with: the one before the last rotation, or an older one, counts as previous. */
  secret?: "current" | "previous";
}

/** What a response may say of a key. */
export type KeyFacts = Pick<KeyConfig, "accountId" | "accountName" | "activityStore" | "name" | "scopes" | "expiresAt">;

export const factsOf = ({ accountId, accountName, activityStore = firstStore, name, scopes, expiresAt }: KeyConfig): KeyFacts => ({
  accountId,
  accountName,
  activityStore,
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

/** Returns the denial that the state and the expiry of a key cause, for every caller. */
export function denialOfState({ state, expiresAt }: Pick<KeyConfig, "state" | "expiresAt">, now: number): DenialCode | null {
  if (state === "revoked") return "revoked_key";
  if (state === "disabled") return "disabled_key";
  return expiresAt !== null && now >= expiresAt ? "expired_key" : null;
}

/** Everything that can refuse a request but the limit, in the order of the contract: secret, state, expiry, the account's suspension, IP, scope. */
export function denialOf(config: KeyConfig, allowed: readonly AddressRange[], request: AdmissionRequest, now: number): DenialCode | null {
  if (!isLiveSecret(config, request.secretHash, now)) return "invalid_key";
  const ofState = denialOfState(config, now);
  if (ofState !== null) return ofState;
  if (config.suspendedAt) return "account_suspended";
  if (!allowsIp(allowed, request.ip)) return "ip_not_allowed";
  if (request.scope !== null && !config.scopes.includes(request.scope)) return "insufficient_scope";
  return null;
}

const challenge = 'Bearer realm="api"';

const unauthorized = (code: FailureContent["code"], message: string): FailureContent => ({
  code,
  message,
  headers: { "WWW-Authenticate": code === "missing_key" ? challenge : `${challenge}, error="invalid_token"` },
});

export const missingKey = unauthorized("missing_key", "Send an API key: Authorization: Bearer <API_KEY>.");
export const invalidKey = unauthorized("invalid_key", "This is not a key of this service, or no longer its secret.");

/** What a client is told of a refusal, with the challenge of RFC 6750. `limit`: requests an hour. */
export function denialContent(code: DenialCode, { scope, limit }: { scope: string | null; limit: number }): FailureContent {
  switch (code) {
    case "invalid_key":
      return invalidKey;
    case "revoked_key":
      return unauthorized(code, "This key has been revoked, for good.");
    case "disabled_key":
      return unauthorized(code, "This key is disabled. It can be enabled again.");
    case "expired_key":
      return unauthorized(code, "This key has expired.");
    case "account_suspended":
      return { code, message: "This account is suspended. The operator of this service can say why, and resume it." };
    case "ip_not_allowed":
      return { code, message: "This key may not be used from this address." };
    case "insufficient_scope":
      return {
        code,
        message: `This operation needs the scope ${scope}.`,
        headers: { "WWW-Authenticate": `${challenge}, error="insufficient_scope", scope="${scope}"` },
      };
    case "rate_limit_exceeded":
      return { code, message: `All ${limit} requests of this hour are used.` };
  }
}
