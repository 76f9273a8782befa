import { z } from "@hono/zod-openapi";
import { isUnambiguous } from "../../admission/ip-list.ts";
import { scopes as allScopes, defaultScopes, inOrder } from "../../keys/scopes.ts";
import { text, timeInputOrNull } from "./values.ts";

// What may be said of a key, to the API and in a form.

const name = text(1, 100);
const scopes = z
  .array(z.enum(allScopes))
  .transform(inOrder)
  .openapi({ type: "array", items: { type: "string", enum: [...allScopes] } });
const hourlyLimit = z.int().min(1);
const mostAllowedIps = 100;
const ipListDocument = {
  items: { type: "string" as const },
  maxItems: mostAllowedIps,
  description: "Addresses and CIDR ranges, IPv4 and IPv6. Empty: any.",
  example: ["203.0.113.0/24"],
};
const ipList = z
  .array(
    z
      .union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], "Must be an IPv4 or IPv6 address or CIDR range.")
      .refine(isUnambiguous, "Write the IPv4 address by itself."),
  )
  .max(mostAllowedIps);
const allowedIps = ipList.openapi({ type: "array", ...ipListDocument });
const allowedIpsOrNull = ipList.nullable().openapi({ type: ["array", "null"], ...ipListDocument });

export const NewKey = z
  .strictObject({
    name,
    scopes: scopes.optional().openapi({ default: defaultScopes }),
    hourly_limit: hourlyLimit
      .optional()
      .openapi({ description: "1 to the account's ceiling. By default the acting key's own, at most the ceiling." }),
    allowed_ips: allowedIps.optional(),
    expires_at: timeInputOrNull.optional(),
  })
  .openapi("NewKey", { description: "What is left open is as wide as the acting key's own." });

export const KeyPatch = z
  .strictObject({
    name: name.optional(),
    scopes: scopes.optional(),
    status: z.enum(["active", "disabled"]).optional(),
    hourly_limit: hourlyLimit.optional(),
    allowed_ips: allowedIpsOrNull.optional(),
    expires_at: timeInputOrNull.optional(),
    overlap_ends_at: timeInputOrNull
      .optional()
      .openapi({ type: ["string", "null"], format: "date-time", description: "Ends an overlap of secrets earlier; `null` at once." }),
  })
  .openapi("KeyPatch", { description: "The members to change. `null` clears." });

export const Rotation = z
  .strictObject({
    overlap_seconds: z.int().min(0).max(604_800).default(0).openapi({ description: "For how long the old secret works on." }),
  })
  .openapi("KeyRotation");
