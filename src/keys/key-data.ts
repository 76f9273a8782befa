import { z } from "zod";
import { periods } from "../budget/limits.ts";
import { newKeyPrefix, prefixOf } from "../credentials/key-format.ts";
import { limitsOf } from "../guard/decision.ts";
import { iso, isoOrNull } from "../lib/time/clock.ts";
import { isoText, timeOf } from "../lib/time/iso-text.ts";
import { type Key, keyStatuses, statusOf } from "./key.ts";
import { exampleScopes } from "./scopes.ts";

const partyType = z.enum(["key", "member", "token", "operator", "system"]).meta({
  description:
    "The type of the creator: another `key`, a `member` of the account, a service `token`, the `operator` (the team behind this service), or the `system`.",
  examples: ["key"],
});

export const perDescription =
  "The period of the limit. `hour`, `day` and `month` begin at full hours, days and months in UTC. `second` and `minute` allow the whole limit at once, and give it back evenly.";
const stringOrNull = z.string().nullable();

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
    examples: [`${newKeyPrefix}4fPq2rT8vX0zB6dH`],
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
  last_used_path: stringOrNull.meta({
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
      id: stringOrNull.meta({
        description:
          "The id of the key, member or service token that created the key. Null for the team behind this service and the system.",
        examples: ["key_8hJk3mN5pQ7rS9tU"],
      }),
      name: stringOrNull.meta({
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
  prefix: prefixOf(key),
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

/** The public form of a key in the team API. */
export const TeamKeyData = z.strictObject({
  ...KeyData.shape,
  external_id: stringOrNull.meta({ description: "The id of the key in your own system, or null.", examples: ["cred_17"] }),
  metadata: z.record(z.string(), z.unknown()).meta({ description: "Your own values.", examples: [{ plan: "pro" }] }),
});
export const teamKeyData = (key: Key, now: number): z.infer<typeof TeamKeyData> => ({
  ...keyData(key, now),
  external_id: key.externalId,
  metadata: key.metadata,
});
