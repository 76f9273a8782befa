import type { Manifest } from "../db/manifest.ts";
import { manifests, type Scope, servedManifests } from "../db/registry/manifests.ts";
import { invalidMember } from "../lib/errors/failure.ts";
import { settings } from "../lib/settings.ts";

export type { Scope } from "../db/registry/manifests.ts";

const { scopes: declared } = settings;
const ofTeam = declared.map((scope): [string, { isDefault: boolean }] => [scope.name, { isDefault: scope.default }]);

/** Returns what the team says about a scope of its own API, or undefined for a scope of this API. */
export const descriptionOf = (scope: string): string | undefined => declared.find(({ name }) => name === scope)?.description;

const scopesOf = (areas: readonly Manifest[]) =>
  [...areas.flatMap((manifest) => Object.entries(manifest.scopes ?? {})), ...ofTeam] as [Scope, { isDefault: boolean }][];
const stated = scopesOf(servedManifests);

/** All scopes that a key may have. Older keys may have scopes of the sample resources, even if these resources are not served. */
export const knownScopes: readonly Scope[] = scopesOf(manifests).map(([scope]) => scope);

/** The scopes that a key can have: those of this API, and those of the team's own API. For example, a key with the scope `users:read` can read users. */
export const scopes: readonly Scope[] = stated.map(([scope]) => scope);

/** If a request for a new key does not list scopes, the key gets these scopes. */
export const defaultScopes: readonly Scope[] = stated.filter(([, { isDefault }]) => isDefault).map(([scope]) => scope);

/** The scopes of a key that the team makes or imports, if it names none. The sample resources are no part of the team's own API. */
export const teamDefaultScopes = declared.filter(({ default: isDefault }) => isDefault).map(({ name }) => name) as Scope[];

/** Returns whether a scope belongs to a resource that is served. */
export const isServed = (scope: string): boolean => (scopes as readonly string[]).includes(scope);

/**
 * Throws `invalid_body` if new scopes belong to a resource that is not served. `before`: the older scopes, which stay valid. `pointer`: the member of the
 * body.
 */
export function requireServed(given: readonly string[], before: readonly string[], pointer: string): void {
  if (given.some((scope) => !isServed(scope) && !before.includes(scope))) throw invalidMember(pointer, oneOfScopes, "invalid_value");
}

/** What an error says about a scope that a key cannot get. */
export const oneOfScopes = `Must be one of ${scopes.join(", ")}.`;

/** Two scopes for the examples in the API documentation. */
export const exampleScopes: readonly Scope[] = [...defaultScopes, ...scopes].slice(0, 2);

/**
 * Describes scopes in words, grouped by resource. An example is "tasks (read, write), users (read)". If all scopes are given, returns
 * "everything". If there are none, returns "none".
 */
export function scopesInWords(given: readonly string[]): string {
  if (scopes.every((scope) => given.includes(scope))) return "everything";
  const byResource = Map.groupBy(inOrder(given), (scope) => scope.split(":")[0] ?? "");
  const words = [...byResource].map(
    ([resource, own]) => `${resource} (${own.map((scope) => scope.slice(resource.length + 1)).join(", ")})`,
  );
  return words.join(", ") || "none";
}

/** Returns the given scopes without duplicates, in the order of the list `of`. Other scopes are left out. */
export const inOrder = (given: readonly string[], of = scopes): Scope[] => of.filter((scope) => given.includes(scope));
