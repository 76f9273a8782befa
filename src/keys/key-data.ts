import { z } from "zod";
import { iso, isoOrNull } from "../time/clock.ts";
import { isoText, timeOf } from "../time/iso-text.ts";
import { type Key, keyStatuses, statusOf } from "./key.ts";
import { prefixOf } from "./key-format.ts";

const partyType = z.enum(["key", "member", "operator", "system"]).meta({
  description: "What made it: another `key`, a `member` in the overview, the `operator` or the `system` itself.",
  examples: ["key"],
});

/** A key as everybody outside sees it: in answers and in events. Its secret is in neither. */
export const KeyData = z.strictObject({
  id: z.string().meta({ description: "The id of the key. It is no secret.", examples: ["key_4fPq2rT8vX0zB6dH"] }),
  name: z.string().meta({ description: "What the key is for.", examples: ["Continuous integration"] }),
  prefix: z.string().meta({
    description: "The public part, with which the secret key begins: how to tell keys apart in a log.",
    examples: ["dvo_4fPq2rT8vX0zB6dH"],
  }),
  last4: z.string().meta({ description: "The last four characters of the secret key.", examples: ["x7Qa"] }),
  scopes: z.array(z.string()).meta({ description: "What the key may do.", examples: [["users:read", "tasks:read"]] }),
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
        .meta({ description: "What it is called now; null in events.", examples: ["Production backend"] }),
    })
    .meta({ description: "Who made it." }),
  created_at: timeOf("When the key was made."),
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
