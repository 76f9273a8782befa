import type { Limit } from "../budget/limits.ts";
import { type AddressRange, parseIpList } from "../lib/net/ip-list.ts";
import type { SharedLimits } from "./account-units.ts";
import { factsOf, type KeyConfig, type KeyFacts, limitsOf } from "./decision.ts";

/**
 * A configuration, and values that are derived from the configuration. The values are computed once per configuration, not once per
 * request.
 */
export interface LoadedKey {
  config: KeyConfig;
  facts: KeyFacts;
  allowed: readonly AddressRange[];
  limits: readonly Limit[];
  shared: SharedLimits;
}

export const loadedKey = (config: KeyConfig): LoadedKey => ({
  config,
  facts: factsOf(config),
  allowed: parseIpList(config.allowedIps),
  limits: limitsOf(config),
  shared: {
    accountId: config.accountId,
    limits: config.accountLimits,
    periods: config.accountLimits.map(({ per }) => per),
    version: config.accountVersion,
  },
});
