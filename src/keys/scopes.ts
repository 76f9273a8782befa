/** What a key may do. `users:read` lets it read users, and so on. */
export const scopes = [
  "users:read",
  "users:write",
  "tasks:read",
  "tasks:write",
  "analytics:read",
  "usage:read",
  "activity:read",
  "keys:read",
  "keys:write",
  "webhooks:read",
  "webhooks:write",
  "audit:read",
] as const;

export type Scope = (typeof scopes)[number];

export const defaultScopes: Scope[] = ["users:read", "tasks:read", "tasks:write", "analytics:read"];

/** Each scope once, in the order of the list above. */
export const inOrder = (given: readonly string[]): Scope[] => scopes.filter((scope) => given.includes(scope));
