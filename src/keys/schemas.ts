import { z } from "zod";
import { inPeriodOrder, type Limit, type Period, periods } from "../budget/limits.ts";
import { omitUndefined } from "../lib/inputs/omit-undefined.ts";
import { rotation } from "../lib/inputs/rotation.ts";
import { timeInputOrNull, visibleText } from "../lib/inputs/values.ts";
import { isUnambiguous } from "../lib/net/ip-list.ts";
import { perDescription } from "./key-data.ts";
import { externalId, metadata, metadataPatch } from "./metadata.ts";
import {
  scopes as allScopes,
  defaultScopes,
  exampleScopes,
  inOrder,
  knownScopes,
  oneOfScopes,
  type Scope,
  teamDefaultScopes,
} from "./scopes.ts";

/** The largest limit. */
const maxLimit = 999_999_999;

const name = visibleText(1, 100).meta({
  description: "The name of the key, for example the name of the client that uses it.",
  example: "Continuous integration",
});
const scopeNames = allScopes.map((scope) => `\`${scope}\``).join(", ");
const scopesAmong = (allowed: readonly Scope[]) =>
  z
    .array(z.enum(allowed, { error: oneOfScopes }))
    .transform((given): string[] => inOrder(given, allowed))
    .meta({
      type: "array",
      description: `The scopes of the key: ${scopeNames}.`,
      items: { type: "string", enum: [...allScopes], description: `One of ${scopeNames}.` },
      example: [...exampleScopes],
    });
export const scopesInput = scopesAmong(allScopes);
/** The scopes in a change. Scopes of resources that are not served stay valid, but cannot be added (`requireServed`). */
export const scopesPatch = scopesAmong(knownScopes);
const hourlyLimit = z
  .int()
  .min(1)
  .meta({ description: "The number of requests that the key may make in a clock hour, from 1 to the account's ceiling.", example: 1000 });
/** Limits in a request: at most one for each period. */
export const limitsInput = <Per extends Period>(of: readonly [Per, ...Per[]]) =>
  z
    .array(
      z.strictObject({
        per: z.enum(of as readonly Per[]).meta({ description: perDescription, example: of[0] }),
        limit: z.int().min(1).max(maxLimit).meta({ description: "The number of units that the key may use per period.", example: 20 }),
      }),
    )
    .refine((given) => new Set(given.map(({ per }) => per)).size === given.length, "Must have at most one limit for each period.");
const limits = limitsInput(periods).meta({
  description:
    "The limits of the key, in place of all limits that it has. Without a limit per hour, `hourly_limit` stays as it is. All limits are decided together: a request that one of them refuses uses nothing of the others.",
  example: [
    { per: "second", limit: 20 },
    { per: "hour", limit: 1000 },
  ],
});
const sameHour = {
  check: ({ limits: given, hourly_limit: hourly }: { limits?: readonly Limit[] | undefined; hourly_limit?: number | undefined }) => {
    const hour = given?.find(({ per }) => per === "hour");
    return hour === undefined || hourly === undefined || hour.limit === hourly;
  },
  otherwise: { message: "Must be the limit per hour in `limits`.", path: ["hourly_limit"] },
};
const expiresAt = timeInputOrNull.meta({
  type: ["string", "null"],
  format: "date-time",
  description: "The time when the key expires, which must be in the future. With `null`, the key never expires.",
  example: "2099-12-31T00:00:00Z",
});
const maxAllowedIps = 100;
const ipListDocument = {
  items: {
    type: "string" as const,
    anyOf: [{ format: "ipv4" }, { format: "ipv6" }, { pattern: "^[0-9A-Fa-f.:]+/[0-9]{1,3}$" }],
  },
  maxItems: maxAllowedIps,
  description: "The IPv4 and IPv6 addresses and CIDR ranges from which the key may be used. An empty list allows every address.",
  example: ["203.0.113.0/24"],
};
const ipList = z
  .array(
    z
      .union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], "Must be an IPv4 or IPv6 address or CIDR range.")
      .refine(isUnambiguous, "Must be a plain IPv4 address, without an IPv6 prefix."),
  )
  .max(maxAllowedIps);
const allowedIps = ipList.meta({ type: "array", ...ipListDocument });
const allowedIpsOrNull = ipList.nullable().meta({ type: ["array", "null"], ...ipListDocument });

/** The settings of a new key, in an API request or in a form. If a key sends the request, that key's limit, addresses and expiry are the defaults. */
export const NewKey = z
  .strictObject({
    name,
    scopes: scopesInput.optional().meta({ default: defaultScopes }),
    hourly_limit: hourlyLimit.optional().meta({
      description:
        "The number of requests that the key may make in a clock hour, from 1 to the account's ceiling. The default is the limit of the key that sends the request.",
    }),
    limits: limits.optional(),
    allowed_ips: allowedIps.optional(),
    expires_at: expiresAt.optional(),
  })
  .refine(sameHour.check, sameHour.otherwise);

/** The body of a request to change a key. Each member is the new value of a field. */
export const KeyPatch = z
  .strictObject({
    name: name.optional(),
    scopes: scopesPatch.optional(),
    status: z
      .enum(["active", "disabled"])
      .optional()
      .meta({ description: "The new status. A `disabled` key is denied until its status is `active` again.", example: "disabled" }),
    hourly_limit: hourlyLimit.optional(),
    limits: limits.optional(),
    limits_from: z.enum(["key", "plan"]).optional().meta({
      description:
        "With `plan`, the key gets the limits of the account's plan, and every change of them. With `key`, its limits become its own. Without this member, limits that differ from those of the key become its own.",
      example: "plan",
    }),
    allowed_ips: allowedIpsOrNull.optional(),
    expires_at: expiresAt.optional(),
    overlap_ends_at: timeInputOrNull.optional().meta({
      type: ["string", "null"],
      format: "date-time",
      description:
        "The new time when the overlap of the two secrets ends. The new time must not be later than the current end of the overlap. `null` ends the overlap immediately.",
      example: null,
    }),
  })
  .refine(sameHour.check, sameHour.otherwise);

/** The members of a key that only the team's own API sees and sets. */
const teamMembers = { external_id: externalId.nullable().optional(), metadata: metadata.optional() };
export const TeamNewKey = z
  .strictObject({
    ...NewKey.shape,
    scopes: scopesInput.optional().meta({ default: teamDefaultScopes }),
    hourly_limit: hourlyLimit.optional().meta({
      description:
        "The number of requests that the key may make in a clock hour, from 1 to the account's ceiling. The default is the limit of the account's plan.",
    }),
    ...teamMembers,
  })
  .refine(sameHour.check, sameHour.otherwise);
export const TeamKeyPatch = z
  .strictObject({ ...KeyPatch.shape, ...teamMembers, metadata: metadataPatch.optional() })
  .refine(sameHour.check, sameHour.otherwise);
/** Returns the team's own values in the body of a request. */
export const teamValuesOf = ({
  external_id: external,
  metadata: values,
}: {
  external_id?: string | null | undefined;
  metadata?: Record<string, unknown> | undefined;
}) => omitUndefined({ externalId: external, metadata: values });

/** The body of an operator's request to replace the limits of a key. */
export const KeyLimits = z.strictObject({ limits });

export const limitFields = ({
  limits: given,
  hourly_limit: hourly,
}: {
  limits?: Limit[] | undefined;
  hourly_limit?: number | undefined;
}) => ({
  hourlyLimit: hourly ?? given?.find(({ per }) => per === "hour")?.limit,
  otherLimits: given && inPeriodOrder(given.filter(({ per }) => per !== "hour")),
});

/** The body of a request to rotate a key. */
export const KeyRotation = rotation("The number of seconds for which the old secret still works");

/** Converts a parsed `NewKey` into the input of `createKey`. */
export const newKeyOf = ({ name, scopes, allowed_ips, expires_at, ...rest }: z.output<typeof NewKey>) => ({
  name,
  scopes,
  ...limitFields(rest),
  allowedIps: allowed_ips,
  expiresAt: expires_at,
});

/** Converts a parsed `KeyPatch` into the input of `changeKey`. */
export const keyPatchOf = (patch: Partial<z.output<typeof KeyPatch>>) =>
  omitUndefined({
    name: patch.name,
    scopes: patch.scopes,
    state: patch.status,
    ...limitFields(patch),
    limitsFrom: patch.limits_from,
    allowedIps: patch.allowed_ips === null ? [] : patch.allowed_ips,
    expiresAt: patch.expires_at,
    overlapEndsAt: patch.overlap_ends_at,
  });
