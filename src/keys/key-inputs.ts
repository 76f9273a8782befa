import { z } from "@hono/zod-openapi";
import { timeInputOrNull, visibleText } from "../inputs/values.ts";
import { isUnambiguous } from "../net/ip-list.ts";
import { scopes as allScopes, defaultScopes, inOrder } from "./scopes.ts";

// What may be said of a key, to the API and in a form.

const name = visibleText(1, 100).openapi({
  description: "What the key is for, as people will look for it.",
  example: "Continuous integration",
});
const scopes = z
  .array(z.enum(allScopes))
  .transform(inOrder)
  .openapi({
    type: "array",
    description: `What the key may do: ${allScopes.map((scope) => `\`${scope}\``).join(", ")}.`,
    items: { type: "string", enum: [...allScopes], description: `One of ${allScopes.map((scope) => `\`${scope}\``).join(", ")}.` },
    example: ["users:read", "tasks:read"],
  });
const hourlyLimit = z
  .int()
  .min(1)
  .openapi({ description: "How many requests it may make in a clock hour: 1 to the account's ceiling.", example: 1000 });
const expiresAt = timeInputOrNull.openapi({
  type: ["string", "null"],
  format: "date-time",
  description: "When it expires: a time to come. `null`: never.",
  example: "2099-12-31T00:00:00Z",
});
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
    hourly_limit: hourlyLimit.optional().openapi({
      description: "How many requests it may make in a clock hour: 1 to the account's ceiling. By default as many as the acting key.",
    }),
    allowed_ips: allowedIps.optional(),
    expires_at: expiresAt.optional(),
  })
  .openapi("NewKey", {
    description: "A key to make. What is left open is as wide as the acting key's own.",
    example: { name: "Continuous integration", scopes: ["users:read", "tasks:read"], hourly_limit: 1000 },
  });

export const KeyPatch = z
  .strictObject({
    name: name.optional(),
    scopes: scopes.optional(),
    status: z
      .enum(["active", "disabled"])
      .optional()
      .openapi({ description: "`disabled` refuses its requests until it is `active` again.", example: "disabled" }),
    hourly_limit: hourlyLimit.optional(),
    allowed_ips: allowedIpsOrNull.optional(),
    expires_at: expiresAt.optional(),
    overlap_ends_at: timeInputOrNull.optional().openapi({
      type: ["string", "null"],
      format: "date-time",
      description: "Ends an overlap of secrets earlier; `null` at once.",
      example: null,
    }),
  })
  .openapi("KeyPatch", {
    description: "The members of a key to change. `null` clears.",
    example: { name: "Nightly build", hourly_limit: 500 },
  });

export const Rotation = z
  .strictObject({
    overlap_seconds: z
      .int()
      .min(0)
      .max(604_800)
      .default(0)
      .openapi({ description: "For how many seconds the old secret works on, 0 to 604,800 (seven days).", example: 86_400 }),
  })
  .openapi("KeyRotation", { description: "How a key gets its new secret." });
