import { z } from "zod";
import { invalidMember } from "../lib/errors/failure.ts";

// The values that the team stores with an account or a key.

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
