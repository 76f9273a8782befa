import type { Entry } from "../activity/entry.ts";
import type { FailureContent } from "../errors/failure.ts";
import { type AddressRange, allowsIp } from "../net/ip-list.ts";
import type { AccountLimit } from "./rights.ts";
import { type FixedPeriod, inPeriodOrder, type Limit, type LimitUsage, type Period, periods } from "./window.ts";

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
  /** The scope that the route requires, or null if any key may call the route. */
  scope: string | null;
  /** False if requests to the route do not count against the limits. Such a route responds even when a limit is reached. */
  counted: boolean;
  /** The number of units that the request uses, if it counts. */
  cost: number;
  /** Whether the guard only looks if the key could be admitted now. Nothing is counted. */
  isLook?: boolean | undefined;
  /** Present if the team's own API asks about a request that it has received. */
  verification?: VerificationRequest | undefined;
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
  shared?: readonly (LimitUsage & { per: FixedPeriod })[];
  /** Why the request was refused, if its limits are the reason. */
  violation?: Violation;
  /** The kind of secret that the request used. Any secret other than the key's current one counts as `previous`. */
  secret?: "current" | "previous";
  /** Present if the request was a verification. */
  verified?: VerifiedFacts;
}

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
}

/** The name of a limit in headers and responses. The name of a limit that all keys of the account share begins with `account-`. */
export type PolicyName = Period | `account-${FixedPeriod}`;
export const policyNames = [...periods, "account-hour", "account-day", "account-month"] as const satisfies readonly PolicyName[];

/** What is used of a limit, with the name of the limit. */
export interface PolicyUsage extends LimitUsage {
  name: PolicyName;
}

/** Returns what is used of each limit of the key, and then of its account. */
function allLimitsIn({ limits, shared = [] }: Pick<Admission, "limits" | "shared">): PolicyUsage[] {
  const own = limits.map((limit): PolicyUsage => ({ ...limit, name: limit.per }));
  return [...own, ...shared.map((limit): PolicyUsage => ({ ...limit, name: `account-${limit.per}` }))];
}

/** Returns the limits that can refuse a request. A limit of the key above the account's limit for the same period never does. */
export const limitsIn = (admission: Pick<Admission, "limits" | "shared">): PolicyUsage[] =>
  allLimitsIn(admission).filter(
    ({ name, per, limit }) => name !== per || !admission.shared?.some((each) => each.per === per && each.limit < limit),
  );

/** Returns the limits that refused a request, or all limits if the guard does not say which. */
export function violatedIn(admission: Pick<Admission, "limits" | "shared" | "violation">): PolicyUsage[] {
  const { violation } = admission;
  if (!violation) return limitsIn(admission);
  const names: readonly PolicyName[] = [...violation.periods, ...(violation.shared ?? []).map((per) => `account-${per}` as const)];
  const named = ({ name }: PolicyUsage) => names.includes(name);
  const shown = limitsIn(admission).filter(named);
  // A denial names only limits that the headers have.
  return shown.length > 0 ? shown : allLimitsIn(admission).filter(named);
}

/** Returns which limits refused a request, and the state of all limits after it. Requests that were denied for another reason record neither. */
export function limitDetails(admission: Admission, cost = 1): Pick<Entry, "cost" | "violated" | "limits"> {
  const { violation, refusal } = admission;
  const isAboutLimits = refusal === null || violation !== undefined;
  return {
    cost: cost === 1 ? null : cost,
    violated: violation ? violatedIn(admission).map(({ name }) => name) : null,
    limits: isAboutLimits ? limitsIn(admission).map(({ name, limit, used }) => ({ name, limit, used })) : null,
  };
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

/**
 * Returns whether a key accepts a secret. A key accepts its current secret. During the overlap, the key also accepts its previous secret.
 */
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
export const invalidKey = unauthorized("invalid_key", "This is not a key of this service, or its secret has been replaced.");

/**
 * Returns the error for a denied request. If the key is not valid or lacks the scope, the error includes the `WWW-Authenticate` challenge
 * of RFC 6750. `limits`: the limits that have no room for the request. `cost`: the number of units that the request uses.
 */
export function denialContent(
  code: DenialCode,
  { scope, limits = [], cost = 1 }: { scope: string | null; limits?: readonly PolicyUsage[]; cost?: number | undefined },
): FailureContent {
  switch (code) {
    case "invalid_key":
      return invalidKey;
    case "revoked_key":
      return unauthorized(code, "This key has been permanently revoked.");
    case "disabled_key":
      return unauthorized(code, "This key is disabled. It can be enabled again.");
    case "expired_key":
      return unauthorized(code, "This key has expired.");
    case "account_suspended":
      return { code, message: "This account is suspended. Ask the team behind this service to resume the account." };
    case "ip_not_allowed":
      return { code, message: "This key may not be used from this IP address." };
    case "insufficient_scope":
      return {
        code,
        message: `This operation needs the scope ${scope}.`,
        headers: { "WWW-Authenticate": `${challenge}, error="insufficient_scope", scope="${scope}"` },
      };
    case "conflict":
      return { code, message: "Another request with this `request_id` came before, with another method, path, scope or cost." };
    case "cost_exceeds_limit":
      return { code, message: `This request costs ${cost} units, which is more than a whole limit: ${listOf(limits)}.` };
    case "rate_limit_exceeded":
      return {
        code,
        message:
          cost === 1
            ? `The ${limits.length > 1 ? "limits are" : "limit is"} used up: ${listOf(limits)}.`
            : `The ${limits.length > 1 ? "limits have" : "limit has"} no room for a request that costs ${cost} units: ${listOf(limits)}.`,
        violatedPolicies: limits.map(({ name }) => name),
      };
  }
}

const grouped = new Intl.NumberFormat("en");
const units = (limit: number) => grouped.format(limit);
const listOf = (limits: readonly PolicyUsage[]) =>
  limits.map(({ name, per, limit }) => `${units(limit)} per ${per}${name === per ? "" : " for all keys of the account"}`).join(", ");
