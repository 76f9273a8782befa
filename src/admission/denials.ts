import { type FixedPeriod, type LimitUsage, type Period, periods } from "../budget/limits.ts";
import type { Admission, DenialCode } from "../guard/decision.ts";
import type { FailureContent } from "../lib/errors/failure.ts";
import type { Entry } from "../log/entry.ts";

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
        message: `This operation needs the scope ${scope?.split(" ").join(" and ").replaceAll("|", " or ")}.`,
        headers: { "WWW-Authenticate": `${challenge}, error="insufficient_scope", scope="${scope?.replaceAll("|", " ")}"` },
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
