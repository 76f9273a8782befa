import { type JsonObject, type Operation, operationsIn } from "../../src/api/openapi/document.ts";
import { securityScheme } from "../../src/api/route-parts/access.ts";

/**
 * Returns a sentence about the key and the scope that an operation requires. Generated clients show descriptions, but do not show the
 * `security` member.
 */
function accessTo({ security }: Operation): string {
  const [requirement] = security as Record<string, string[]>[];
  if (!requirement) return "Requires no key.";
  const [scope] = requirement[securityScheme] ?? [];
  return scope === undefined ? "Requires a key, with any scopes." : `Requires a key with the scope \`${scope}\`.`;
}

/** Adds the required scope to the description of each operation. */
export function addScopes(document: JsonObject): void {
  for (const { operation } of operationsIn(document)) operation.description = `${operation.description} ${accessTo(operation)}`;
}
