import { manifests, type Scope } from "../registry/manifests.ts";

export type { Scope } from "../registry/manifests.ts";

const stated = manifests.flatMap((manifest) => Object.entries(manifest.scopes ?? {})) as [Scope, { isDefault: boolean }][];

/** What a key may do. `users:read` lets it read users, and so on. */
export const scopes: readonly Scope[] = stated.map(([scope]) => scope);

/** What a new key may do unless its maker says otherwise. */
export const defaultScopes: readonly Scope[] = stated.filter(([, { isDefault }]) => isDefault).map(([scope]) => scope);

/** Two scopes, for examples. */
export const exampleScopes: readonly Scope[] = [...defaultScopes, ...scopes].slice(0, 2);

/** "tasks, users (read)": what scopes come to, resource by resource. */
export function scopesInWords(given: readonly string[]): string {
  if (scopes.every((scope) => given.includes(scope))) return "everything";
  const byResource = Map.groupBy(inOrder(given), (scope) => scope.split(":")[0] ?? "");
  const words = [...byResource].map(([resource, [first, ...more]]) => {
    const isAll = scopes.filter((scope) => scope.startsWith(`${resource}:`)).length === more.length + 1;
    return isAll && more.length > 0 ? resource : `${resource} (${first?.split(":")[1]})`;
  });
  return words.join(", ");
}

/** Each scope once, in the order of the list above. */
export const inOrder = (given: readonly string[]): Scope[] => scopes.filter((scope) => given.includes(scope));
