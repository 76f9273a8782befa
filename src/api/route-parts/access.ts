import { principalOf } from "../../http/context.ts";
import { shareCpu } from "../../http/cpu-share.ts";
import { accountOwner } from "../../http/share-owner.ts";
import type { FailureCode } from "../../lib/errors/failure.ts";

export const securityScheme = "apiKey";

/** The part of a route object that requires an API key with the given scope. If `scope` is null, the route accepts any API key. */
export const requireScope = (scope: string | null) => ({ security: [{ [securityScheme]: scope === null ? [] : [scope] }] });

/** The part of a route object that makes the route public: requests need no API key. */
export const publicRoute = { security: [] as Record<string, string[]>[] };

/**
 * The part of a route object that exempts the route from the limits. Requests to the route are not counted and work even after a
 * limit is reached.
 */
export const notCounted = { "x-counted": false } as const;

/** The part of a route object that sets how many units of each limit a request uses. A route without this part costs one unit. */
export const costs = (units: number) => ({ "x-cost": units }) as const;

/** The part of a route object that runs the route in its account's share of the CPU. For lists, and for other routes that need much CPU. */
export const sharesCpu = {
  "x-shares-cpu": true,
  middleware: shareCpu((c) => accountOwner(principalOf(c).admission.key.accountId)),
} as const;

/**
 * The part of a route object that lists additional error codes. `scripts/openapi/error-responses.ts` derives all other error codes from the route object.
 */
export const failsWith = (...codes: FailureCode[]) => ({ "x-error-codes": codes }) as const;
