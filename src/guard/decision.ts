import type { LeaseReturn } from "../budget/holding.ts";
import {
  type AccountLimit,
  type FixedPeriod,
  inPeriodOrder,
  type Limit,
  type LimitUsage,
  type Period,
  type SharedUsage,
} from "../budget/limits.ts";
import { type AddressRange, allowsIp } from "../lib/net/ip-list.ts";

/** The configuration of a key, in the form that the key's guard stores. The guard gets the configuration from D1. */
export interface KeyConfig {
  version: number;
  /**
   * A random id. Every change to the row of the key sets a new id. After a restore of D1, two different writes can have the same version
   * but never the same revision.
   */
  revision: string;
  accountId: string;
  accountName: string;
  /** The binding of the database that holds the account's log. */
  logWriter: string;
  name: string;
  /** The ids in the team's own system, and the values that the team has stored, as JSON. */
  externalId: string | null;
  metadata: string;
  accountExternalId: string | null;
  accountMetadata: string;
  state: "active" | "disabled" | "revoked";
  scopes: string[];
  /** The limit of the hour, which every key has. */
  hourlyLimit: number;
  /** The other limits, at most one for each period. */
  otherLimits: Limit[];
  allowedIps: string[];
  expiresAt: number | null;
  secretHash: string;
  last4: string;
  previousSecretHash: string | null;
  overlapEndsAt: number | null;
  /** The time when the account was suspended, in milliseconds since the epoch. */
  suspendedAt: number | null;
  /** The limits that all keys of the account share, with a version and a revision of their own. */
  accountVersion: number;
  accountRevision: string;
  accountLimits: AccountLimit[];
}

// During a rollout, the Worker and a guard may run different releases. The two therefore exchange objects with named members. Both sides
// ignore unknown members. Every member that is added after release 1.0 must be optional.

/** The data that a guard needs to decide on one request. */
export interface AdmissionRequest {
  secretHash: string;
  ip: string;
  /**
   * The scope that the route requires, or null if any key may call the route. It can be several scopes, separated by spaces. Each can be a choice: scopes,
   * separated by `|`.
   */
  scope: string | null;
  /** False if requests to the route do not count against the limits. Such a route responds even when a limit is reached. */
  counted: boolean;
  /** The number of units that the request uses, if it counts. */
  cost: number;
  /** Whether the guard only looks if the key could be admitted now. Nothing is counted. */
  isLook?: boolean | undefined;
  /** Present if the team's own API asks about a request that it has received. */
  verification?: VerificationRequest | undefined;
  /**
   * The number of requests with the key that the caller has seen a moment ago, if it would take a lease. With a `cost` of 0, the caller only wants
   * a lease.
   */
  want?: number | undefined;
  /** How long a lease may last for the caller, in milliseconds, if it is a process of the team. */
  leaseMs?: number | undefined;
  /** What is left of the caller's leases that are over. */
  returns?: readonly LeaseReturn[] | undefined;
}

/** What a guard needs to decide on a request that the team's own API has received. */
export interface VerificationRequest {
  /** The accounts about which the caller may ask, or null for all accounts. The keys of other accounts do not exist for the caller. */
  accountIds: readonly string[] | null;
  /** The id in the request log for this request. */
  entryId: string;
  /** The id that the caller gave the request, and a text that describes it. Requests with the same id count once. */
  attempt?: { id: string; about: string } | undefined;
}

/** The reasons why a guard can deny a request. */
export const denialCodes = [
  "invalid_key",
  "revoked_key",
  "disabled_key",
  "expired_key",
  "account_suspended",
  "ip_not_allowed",
  "insufficient_scope",
  "conflict",
  "cost_exceeds_limit",
  "rate_limit_exceeded",
] as const;
export type DenialCode = (typeof denialCodes)[number];

/** A guard's decision on one request. If `refusal` is null, the request may run. */
export interface Admission {
  refusal: DenialCode | null;
  key: KeyFacts;
  /** The limit of the hour. */
  rateLimit: RateLimit;
  /** What is used of each limit, the shortest period first. */
  limits: readonly LimitUsage[];
  /** What is used of the limits that all keys of the account share: an estimate. Absent if there are none. */
  shared?: readonly SharedUsage[];
  /** Why the request was refused, if its limits are the reason. */
  violation?: Violation;
  /** The kind of secret that the request used. Any secret other than the key's current one counts as `previous`. */
  secret: "current" | "previous";
  /** Present if the request was a verification. */
  verified?: VerifiedFacts;
  /** The configuration that decided. */
  revision?: string;
  /** Grows with each answer of the guard, so that a holder knows which of two answers is the later one. */
  order?: number;
  lease?: Lease;
}

/** A lease as the guard sends it. `forMs`: how long it lasts from the time when the holder asked. */
export interface Lease {
  id: string;
  units: number;
  forMs: number;
  config: KeyConfig;
  /** Whether little of a limit is left, so that what is left of the lease has to come back as soon as it ends. */
  isUrgent: boolean;
  /** The units of earlier leases that did not come back in time, and that no earlier lease has told. */
  wasted: number;
}

/** Returns a text that names one configuration of a key. */
export const revisionOf = ({ revision, accountRevision }: Pick<KeyConfig, "revision" | "accountRevision">): string =>
  `${revision} ${accountRevision}`;

/** The answer of a guard that cannot decide now, for example because the account's budget is slow. It is a value, because a call keeps no class of an error. */
export interface Busy {
  busy: true;
}

/** Facts for the team's own API about a key and its account. */
export interface VerifiedFacts {
  /** The id in the request log. A repeated attempt has the id of the first one. */
  entryId: string;
  externalId: string | null;
  /** JSON. */
  metadata: string;
  accountExternalId: string | null;
  /** JSON. */
  accountMetadata: string;
}

/**
 * Limits that have no room for a request: limits of the key, or limits that all keys of the account share. `roomFrom`: the time from which they have room, in
 * milliseconds since the epoch.
 */
export interface Violation {
  periods: readonly Period[];
  shared?: readonly FixedPeriod[];
  roomFrom: number;
  /** Whether units are out with holders of leases, so that there may be room earlier. No cache keeps such a denial. */
  isLeasedOut?: true;
}

/** Returns all limits of a key, the shortest period first. */
export const limitsOf = ({ hourlyLimit, otherLimits }: Pick<KeyConfig, "hourlyLimit" | "otherLimits">): Limit[] =>
  inPeriodOrder([...otherLimits, { per: "hour" as const, limit: hourlyLimit }]);

/** The facts about a key that may appear in a response. */
export type KeyFacts = Pick<KeyConfig, "accountId" | "accountName" | "logWriter" | "name" | "scopes" | "expiresAt">;

export const factsOf = ({ accountId, accountName, logWriter, name, scopes, expiresAt }: KeyConfig): KeyFacts => ({
  accountId,
  accountName,
  logWriter,
  name,
  scopes,
  expiresAt,
});

/** Returns the facts about a key and its account for the team's own API. */
export const verifiedFactsOf = (
  { externalId, metadata, accountExternalId, accountMetadata }: KeyConfig,
  entryId: string,
): VerifiedFacts => ({ entryId, externalId, metadata, accountExternalId, accountMetadata });

/** The state of a key's current rate limit window. `resetsAt` is in milliseconds since the epoch. */
export interface RateLimit {
  limit: number;
  used: number;
  resetsAt: number;
}

/** Returns whether a key accepts a secret: its current one, and during the overlap also its previous one. */
export const isLiveSecret = (
  config: Pick<KeyConfig, "secretHash" | "previousSecretHash" | "overlapEndsAt">,
  secretHash: string,
  now: number,
): boolean =>
  secretHash === config.secretHash ||
  (secretHash === config.previousSecretHash && config.overlapEndsAt !== null && now < config.overlapEndsAt);

/** If the key is revoked, disabled or expired, returns the denial code. Otherwise returns null. */
export function denialOfState({ state, expiresAt }: Pick<KeyConfig, "state" | "expiresAt">, now: number): DenialCode | null {
  if (state === "revoked") return "revoked_key";
  if (state === "disabled") return "disabled_key";
  return expiresAt !== null && now >= expiresAt ? "expired_key" : null;
}

const hasScopes = (own: readonly string[], required: string): boolean =>
  own.includes(required) || required.split(" ").every((choice) => choice.split("|").some((scope) => own.includes(scope)));

/**
 * Returns the first reason to deny a request, or null if there is no such reason. The API contract fixes the order of the checks: secret,
 * state, expiry, suspension, IP address, scope. This function does not check the rate limit.
 */
export function denialOf(config: KeyConfig, allowed: readonly AddressRange[], request: AdmissionRequest, now: number): DenialCode | null {
  const { accountIds = null } = request.verification ?? {};
  if (accountIds !== null && !accountIds.includes(config.accountId)) return "invalid_key";
  if (!isLiveSecret(config, request.secretHash, now)) return "invalid_key";
  const ofState = denialOfState(config, now);
  if (ofState !== null) return ofState;
  if (config.suspendedAt) return "account_suspended";
  if (!allowsIp(allowed, request.ip)) return "ip_not_allowed";
  if (request.scope !== null && !hasScopes(config.scopes, request.scope)) return "insufficient_scope";
  return null;
}
