import { z } from "zod";
import { inPeriodOrder, type Limit, type Period, periods } from "../budget/limits.ts";
import { prefixOf } from "../credentials/key-format.ts";
import { limitsOf } from "../guard/decision.ts";
import { invalidMember } from "../lib/errors/failure.ts";
import { omitUndefined } from "../lib/inputs/omit-undefined.ts";
import { rotation } from "../lib/inputs/rotation.ts";
import { timeInputOrNull, visibleText } from "../lib/inputs/values.ts";
import { isUnambiguous } from "../lib/net/ip-list.ts";
import { iso, isoOrNull } from "../lib/time/clock.ts";
import { isoText, timeOf } from "../lib/time/iso-text.ts";
import { type Key, keyStatuses, statusOf } from "./key.ts";
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

const partyType = z.enum(["key", "member", "token", "operator", "system"]).meta({
  description:
    "The type of the creator: another `key`, a `member` of the account, a service `token`, the `operator` (the team behind this service), or the `system`.",
  examples: ["key"],
});

/** The largest limit. */
const maxLimit = 999_999_999;

const perDescription =
  "The period of the limit. `hour`, `day` and `month` begin at full hours, days and months in UTC. `second` and `minute` allow the whole limit at once, and give it back evenly.";
const LimitData = z.strictObject({
  per: z.enum(periods).meta({ description: perDescription, examples: ["hour"] }),
  limit: z
    .int()
    .meta({ description: "The number of units that the key may use per period. A request usually uses one unit.", examples: [5000] }),
});

/** The public form of a key, in responses and in events. This form excludes the secret. */
export const KeyData = z.strictObject({
  id: z.string().meta({ description: "The id of the key, which is not secret.", examples: ["key_4fPq2rT8vX0zB6dH"] }),
  name: z.string().meta({ description: "The name of the key.", examples: ["Continuous integration"] }),
  prefix: z.string().meta({
    description: "The public prefix of the secret key. Use the prefix to identify the key in logs.",
    examples: ["dvo_4fPq2rT8vX0zB6dH"],
  }),
  last4: z.string().meta({ description: "The last four characters of the secret key.", examples: ["x7Qa"] }),
  scopes: z.array(z.string()).meta({ description: "The scopes of the key.", examples: [[...exampleScopes]] }),
  status: z.enum(keyStatuses).meta({
    description:
      "The status of the key: `active`, `disabled` (until the key is enabled again), `expired` (after `expires_at`) or `revoked` (permanently).",
    examples: ["active"],
  }),
  limits: z.array(LimitData).meta({
    description: "The limits of the key, at most one for each period. A key always has a limit per hour.",
    examples: [[{ per: "hour", limit: 5000 }]],
  }),
  hourly_limit: z
    .int()
    .meta({ description: "The number of units that the key may use in a clock hour: the limit per hour.", examples: [5000] }),
  limits_from: z.enum(["key", "plan"]).meta({
    description: "`key` if the limits are the key's own, `plan` if they are those of the account's plan, which change with it.",
    examples: ["plan"],
  }),
  allowed_ips: z.array(z.string()).meta({
    description: "The IPv4 and IPv6 addresses and CIDR ranges from which the key may be used. An empty list allows every address.",
    examples: [["203.0.113.0/24"]],
  }),
  expires_at: isoText
    .nullable()
    .meta({ description: "The time when the key expires, or null if the key never expires.", examples: ["2027-01-31T00:00:00.000Z"] }),
  last_used_at: isoText.nullable().meta({
    description: "The time when the key was last used. The value is null if the key was never used or if the log cannot be read.",
  }),
  last_used_path: z
    .string()
    .nullable()
    .meta({
      description: "The path of the last request with the key. The value is null if there is no such request or if the log cannot be read.",
      examples: ["/api/v1/usage"],
    }),
  overlap_ends_at: isoText.nullable().meta({
    description: "The time when the previous secret stops working, or null if only the current secret works.",
    examples: [null],
  }),
  created_by: z
    .strictObject({
      type: partyType,
      id: z
        .string()
        .nullable()
        .meta({
          description:
            "The id of the key, member or service token that created the key. Null for the team behind this service and the system.",
          examples: ["key_8hJk3mN5pQ7rS9tU"],
        }),
      name: z
        .string()
        .nullable()
        .meta({
          description: "The current name of the creator, or null if the name is unknown. The value is always null in events.",
          examples: ["Production backend"],
        }),
    })
    .meta({ description: "The creator of the key." }),
  created_at: timeOf("The time when the key was created."),
  updated_at: timeOf("The time when the key was last changed."),
});

export const keyData = (key: Key, now: number): z.infer<typeof KeyData> => ({
  id: key.id,
  name: key.name,
  prefix: key.importedPrefix ?? prefixOf(key.id),
  last4: key.last4,
  scopes: key.scopes,
  status: statusOf(key, now),
  limits: limitsOf(key),
  hourly_limit: key.hourlyLimit,
  limits_from: key.limitsFrom,
  allowed_ips: key.allowedIps,
  expires_at: isoOrNull(key.expiresAt),
  last_used_at: isoOrNull(key.lastUsedAt),
  last_used_path: key.lastUsedPath,
  overlap_ends_at: key.overlapEndsAt !== null && key.overlapEndsAt > now ? iso(key.overlapEndsAt) : null,
  created_by: { type: key.createdByType ?? "operator", id: key.createdById, name: key.createdByName ?? null },
  created_at: iso(key.createdAt),
  updated_at: iso(key.updatedAt),
});

const name = visibleText(1, 100).meta({
  description: "The name of the key, for example the name of the client that uses it.",
  example: "Continuous integration",
});
const scopesAmong = (allowed: readonly Scope[]) =>
  z
    .array(z.enum(allowed, { error: oneOfScopes }))
    .transform((given): string[] => inOrder(given, allowed))
    .meta({
      type: "array",
      description: `The scopes of the key: ${allScopes.map((scope) => `\`${scope}\``).join(", ")}.`,
      items: { type: "string", enum: [...allScopes], description: `One of ${allScopes.map((scope) => `\`${scope}\``).join(", ")}.` },
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

const externalIdRule = "Must be 1 to 200 printable ASCII characters, without spaces at the ends, and not `-`, `.` or `..`.";

/** An id from the team's own system. */
export const externalId = z
  .string()
  .regex(/^[\x21-\x7e](?:[\x20-\x7e]{0,198}[\x21-\x7e])?$/, externalIdRule)
  .refine((id) => !["-", ".", ".."].includes(id), externalIdRule)
  .meta({ description: "The id in your own system.", example: "cus_4711" });
const maxMetadataBytes = 1024;

const maxDepth = 32;

/**
 * Returns the reason against a value of metadata, or null. A member `__proto__` cannot be kept apart from the prototype of an object, and a value that is
 * nested very deeply cannot be written as JSON.
 */
function reasonAgainst(value: unknown, depth = 0): string | null {
  if (typeof value === "number" && !Number.isFinite(value)) return "Must not have a number that is too large for JSON.";
  if (typeof value !== "object" || value === null) return null;
  if (depth > maxDepth) return `Must not be nested more than ${maxDepth} levels deep.`;
  if (Object.hasOwn(value, "__proto__")) return "Must not have a member `__proto__`.";
  for (const member of Object.values(value)) {
    const reason = reasonAgainst(member, depth + 1);
    if (reason !== null) return reason;
  }
  return null;
}

/** An object of any members. zod drops a member `__proto__` silently, so this check comes before zod reads the members. */
const anyMembers = z
  .preprocess(
    (given, ctx) => {
      const message = reasonAgainst(given);
      if (message !== null) ctx.addIssue({ code: "custom", message, params: { code: "invalid_value" } });
      return message === null ? given : z.NEVER;
    },
    z.record(z.string(), z.unknown()),
  )
  .meta({ type: "object", additionalProperties: {} });

/** Values that the team stores with an account or a key. */
export const metadata = anyMembers
  .refine(
    (given) => new TextEncoder().encode(JSON.stringify(given)).byteLength <= maxMetadataBytes,
    "Must have at most 1,024 bytes as JSON.",
  )
  .meta({ description: "Your own values, at most 1,024 bytes as JSON.", example: { plan: "pro" } });

/** A merge patch (RFC 7396) of metadata. */
export const metadataPatch = anyMembers
  .nullable()
  .meta({ description: "Changes of your own values. `null` removes a value, or all of them.", example: { plan: "pro" } });

/** Returns metadata after a merge patch. Throws `invalid_body` if it has more than 1,024 bytes. */
export function patched(
  before: Record<string, unknown>,
  patch: Record<string, unknown> | null | undefined,
): Record<string, unknown> | undefined {
  if (patch === undefined) return undefined;
  const after = merged(before, patch ?? {}, patch === null);
  if (!metadata.safeParse(after).success) throw invalidMember("/metadata", "Must have at most 1,024 bytes as JSON.", "too_big");
  return after;
}

const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function merged(before: Record<string, unknown>, patch: Record<string, unknown>, isCleared = false): Record<string, unknown> {
  const after = isCleared ? {} : { ...before };
  for (const [name, value] of Object.entries(patch)) {
    const own = after[name];
    if (value === null) delete after[name];
    else after[name] = isPlainObject(value) ? merged(isPlainObject(own) ? own : {}, value) : value;
  }
  return after;
}

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
export const TeamKeyData = z.strictObject({
  ...KeyData.shape,
  external_id: z
    .string()
    .nullable()
    .meta({ description: "The id of the key in your own system, or null.", examples: ["cred_17"] }),
  metadata: z.record(z.string(), z.unknown()).meta({ description: "Your own values.", examples: [{ plan: "pro" }] }),
});
export const teamKeyData = (key: Key, now: number): z.infer<typeof TeamKeyData> => ({
  ...keyData(key, now),
  external_id: key.externalId,
  metadata: key.metadata,
});
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

/** Returns the fields of a key for the limits of a request. */
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
