import { Failure } from "../errors.ts";
import { scopeOf } from "./event.ts";

const readScopes = ["users:read", "tasks:read", "keys:read", "webhooks:read"];

/** Throws `forbidden` where a key with these scopes may not read events of all of `types`; `*` stands for every type. */
export function requireReadable(types: readonly string[], scopes: readonly string[] | null): void {
  const needed = types.includes("*") ? readScopes : [...new Set(types.map(scopeOf))];
  const missing = scopes === null ? [] : needed.filter((scope) => !scopes.includes(scope));
  if (missing.length > 0)
    throw new Failure("forbidden", `These events also need the scope of what they are about. This key has not: ${missing.join(", ")}.`);
}
