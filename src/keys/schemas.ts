import { z } from "zod";
import { prefixOf } from "../credentials/key-format.ts";
import { omitUndefined } from "../inputs/omit-undefined.ts";
import { rotation } from "../inputs/rotation.ts";
import { timeInputOrNull, visibleText } from "../inputs/values.ts";
import { isUnambiguous } from "../net/ip-list.ts";
import { iso, isoOrNull } from "../time/clock.ts";
import { isoText, timeOf } from "../time/iso-text.ts";
import { type Key, keyStatuses, statusOf } from "./key.ts";
import { scopes as allScopes, defaultScopes, exampleScopes, inOrder } from "./scopes.ts";

const partyType = z.enum(["key", "member", "operator", "system"]).meta({
  description: "What made it: another `key`, a `member` in the overview, the `operator` or the `system` itself.",
  examples: ["key"],
});

/** A key in responses and events, without its secret. */
export const KeyData = z.strictObject({
  id: z.string().meta({ description: "The id of the key. It is no secret.", examples: ["key_4fPq2rT8vX0zB6dH"] }),
  name: z.string().meta({ description: "The name of the key.", examples: ["Continuous integration"] }),
  prefix: z.string().meta({
    description: "The public start of the secret key. It identifies the key in logs.",
    examples: ["dvo_4fPq2rT8vX0zB6dH"],
  }),
  last4: z.string().meta({ description: "The last four characters of the secret key.", examples: ["x7Qa"] }),
  scopes: z.array(z.string()).meta({ description: "The scopes of the key.", examples: [[...exampleScopes]] }),
  status: z.enum(keyStatuses).meta({
    description:
      "Whether it is in force: `active` is, `disabled` is not until it is enabled again, `expired` is past `expires_at`, `revoked` is ended for good.",
    examples: ["active"],
  }),
  hourly_limit: z.int().meta({ description: "How many requests it may make in a clock hour.", examples: [5000] }),
  allowed_ips: z.array(z.string()).meta({
    description: "Addresses and CIDR ranges, IPv4 and IPv6, that it may be used from. Empty: any.",
    examples: [["203.0.113.0/24"]],
  }),
  expires_at: isoText.nullable().meta({ description: "When it expires; null: never.", examples: ["2027-01-31T00:00:00.000Z"] }),
  last_used_at: isoText.nullable().meta({ description: "When it was last used; null: never, or not known while the log cannot be read." }),
  last_used_path: z
    .string()
    .nullable()
    .meta({ description: "The path that it was last used for; null: none.", examples: ["/api/v1/tasks"] }),
  overlap_ends_at: isoText
    .nullable()
    .meta({ description: "Until then the secret before the last rotation works too; null where it does not.", examples: [null] }),
  created_by: z
    .strictObject({
      type: partyType,
      id: z
        .string()
        .nullable()
        .meta({ description: "The id of that key or member; null for others.", examples: ["key_8hJk3mN5pQ7rS9tU"] }),
      name: z
        .string()
        .nullable()
        .meta({ description: "Its current name; null in events.", examples: ["Production backend"] }),
    })
    .meta({ description: "Who created it." }),
  created_at: timeOf("When the key was created."),
  updated_at: timeOf("When the key was last changed."),
});

export const keyData = (key: Key, now: number): z.infer<typeof KeyData> => ({
  id: key.id,
  name: key.name,
  prefix: prefixOf(key.id),
  last4: key.last4,
  scopes: key.scopes,
  status: statusOf(key, now),
  hourly_limit: key.hourlyLimit,
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
  description: "The name of the key, for example the client that uses it.",
  example: "Continuous integration",
});
const scopes = z
  .array(z.enum(allScopes))
  .transform((given): string[] => inOrder(given))
  .meta({
    type: "array",
    description: `What the key may do: ${allScopes.map((scope) => `\`${scope}\``).join(", ")}.`,
    items: { type: "string", enum: [...allScopes], description: `One of ${allScopes.map((scope) => `\`${scope}\``).join(", ")}.` },
    example: [...exampleScopes],
  });
const hourlyLimit = z
  .int()
  .min(1)
  .meta({ description: "How many requests it may make in a clock hour: 1 to the account's ceiling.", example: 1000 });
const expiresAt = timeInputOrNull.meta({
  type: ["string", "null"],
  format: "date-time",
  description: "When it expires: a time to come. `null`: never.",
  example: "2099-12-31T00:00:00Z",
});
const maxAllowedIps = 100;
const ipListDocument = {
  items: { type: "string" as const },
  maxItems: maxAllowedIps,
  description: "Addresses and CIDR ranges, IPv4 and IPv6. Empty: any.",
  example: ["203.0.113.0/24"],
};
const ipList = z
  .array(
    z
      .union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], "Must be an IPv4 or IPv6 address or CIDR range.")
      .refine(isUnambiguous, "Write the IPv4 address by itself."),
  )
  .max(maxAllowedIps);
const allowedIps = ipList.meta({ type: "array", ...ipListDocument });
const allowedIpsOrNull = ipList.nullable().meta({ type: ["array", "null"], ...ipListDocument });

/** The settings of a new key, in the API and in a form. The limit, the addresses and the expiry default to those of the acting key. */
export const NewKey = z.strictObject({
  name,
  scopes: scopes.optional().meta({ default: defaultScopes }),
  hourly_limit: hourlyLimit.optional().meta({
    description: "How many requests it may make in a clock hour: 1 to the account's ceiling. By default as many as the acting key.",
  }),
  allowed_ips: allowedIps.optional(),
  expires_at: expiresAt.optional(),
});

/** The members of a key to change. */
export const KeyPatch = z.strictObject({
  name: name.optional(),
  scopes: scopes.optional(),
  status: z
    .enum(["active", "disabled"])
    .optional()
    .meta({ description: "`disabled` refuses its requests until it is `active` again.", example: "disabled" }),
  hourly_limit: hourlyLimit.optional(),
  allowed_ips: allowedIpsOrNull.optional(),
  expires_at: expiresAt.optional(),
  overlap_ends_at: timeInputOrNull.optional().meta({
    type: ["string", "null"],
    format: "date-time",
    description: "Ends an overlap of secrets earlier; `null` at once.",
    example: null,
  }),
});

/** The body of a request to rotate a key. */
export const KeyRotation = rotation("For how many seconds the old secret works on, 0 to 604,800 (seven days).");

/** Converts a parsed `NewKey` into the input of `createKey`. */
export const newKeyOf = ({ name, scopes, hourly_limit, allowed_ips, expires_at }: z.output<typeof NewKey>) => ({
  name,
  scopes,
  hourlyLimit: hourly_limit,
  allowedIps: allowed_ips,
  expiresAt: expires_at,
});

/** Converts a parsed `KeyPatch` into the input of `changeKey`. */
export const keyPatchOf = (patch: z.output<typeof KeyPatch>) =>
  omitUndefined({
    name: patch.name,
    scopes: patch.scopes,
    state: patch.status,
    hourlyLimit: patch.hourly_limit,
    allowedIps: patch.allowed_ips === null ? [] : patch.allowed_ips,
    expiresAt: patch.expires_at,
    overlapEndsAt: patch.overlap_ends_at,
  });
