import { manifests, type Scope } from "../registry/manifests.ts";

export type { Scope } from "../registry/manifests.ts";

const stated = manifests.flatMap((manifest) => Object.entries(manifest.scopes ?? {})) as [Scope, { isDefault: boolean }][];

/** The scopes that a key can have. For example, `users:read` lets the key read users. */
export const scopes: readonly Scope[] = stated.map(([scope]) => scope);

/** The scopes that a new key gets if its creator names none. */
export const defaultScopes: readonly Scope[] = stated.filter(([, { isDefault }]) => isDefault).map(([scope]) => scope);

/** Two scopes that examples use. */
export const exampleScopes: readonly Scope[] = [...defaultScopes, ...scopes].slice(0, 2);

/** Describes scopes by resource, for example "tasks, users (read)". Returns "everything" for all scopes. */
export function scopesInWords(given: readonly string[]): string {
  if (scopes.every((scope) => given.includes(scope))) return "everything";
  const byResource = Map.groupBy(inOrder(given), (scope) => scope.split(":")[0] ?? "");
  const words = [...byResource].map(([resource, [first, ...more]]) => {
    const isAll = scopes.filter((scope) => scope.startsWith(`${resource}:`)).length === more.length + 1;
    return isAll && more.length > 0 ? resource : `${resource} (${first?.split(":")[1]})`;
  });
  return words.join(", ");
}

/** Returns each given scope once, in the order of `scopes`. */
export const inOrder = (given: readonly string[]): Scope[] => scopes.filter((scope) => given.includes(scope));
