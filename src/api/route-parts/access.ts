import type { FailureCode } from "../../errors/failure.ts";

export const securityScheme = "apiKey";

/** The part of a route object that says who may call it: a key with that scope or, where it is null, any key. */
export const requireScope = (scope: string | null) => ({ security: [{ [securityScheme]: scope === null ? [] : [scope] }] });

/** The part of a route object that makes it public: it is answered without a key. */
export const publicRoute = { security: [] as Record<string, string[]>[] };

/** The part of a route object that is answered even when the limit is reached, and uses none of it. */
export const notCounted = { "x-counted": false } as const;

/** The part of a route object that says with which codes it refuses, besides those that follow from what it takes (`document/refusals.ts`). */
export const refusing = (...codes: FailureCode[]) => ({ "x-refusals": codes }) as const;
