import { z } from "zod";
import { iso, isoOrNull } from "../clock.ts";
import { isoText } from "../iso-text.ts";
import { type Key, keyStatuses, statusOf } from "./key.ts";
import { prefixOf } from "./key-format.ts";

/** A key as everybody outside sees it: in answers and in events. Its secret is in neither. */
export const KeyData = z.strictObject({
  id: z.string().meta({ examples: ["key_4fPq2rT8vX0zB6dH"] }),
  name: z.string(),
  prefix: z.string().meta({ examples: ["dvo_4fPq2rT8vX0zB6dH"] }),
  last4: z.string(),
  scopes: z.array(z.string()),
  status: z.enum(keyStatuses),
  hourly_limit: z.int(),
  allowed_ips: z.array(z.string()),
  expires_at: isoText.nullable(),
  last_used_at: isoText.nullable(),
  last_used_path: z.string().nullable(),
  overlap_ends_at: isoText.nullable().meta({ description: "Until then the secret before the last rotation works too." }),
  created_by: z.strictObject({
    type: z.enum(["key", "member", "operator", "system"]),
    id: z.string().nullable(),
    name: z.string().nullable().meta({ description: "What it is called now; null in events." }),
  }),
  created_at: isoText,
  updated_at: isoText,
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
