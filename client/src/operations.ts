import type { ListPath } from "./pages.ts";
import type { paths } from "./schema.ts";
import { standardOperations } from "./standard-operations.ts";

type Verb = "POST" | "PATCH" | "DELETE";
type QueryOf<Path extends keyof paths> = paths[Path] extends { get: { parameters: { query?: infer Query } } } ? NonNullable<Query> : never;
type ReadOf<Path extends keyof paths> = Path extends ListPath
  ? `LIST ${Path}`
  : [QueryOf<Path>] extends [never]
    ? `GET ${Path}`
    : `GET ${Path}?`;
type WriteOf<Path extends keyof paths> = {
  [Method in Verb]: paths[Path] extends Record<Lowercase<Method>, object> ? `${Method} ${Path}` : never;
}[Verb];

/**
 * The names of all operations in the OpenAPI document. The object `operations` below uses these names. `LIST` means a GET request that returns
 * pages. A question mark at the end means a GET request with query parameters.
 */
export type OperationName = {
  [Path in keyof paths]: (paths[Path] extends { get: object } ? ReadOf<Path> : never) | WriteOf<Path>;
}[keyof paths];

/**
 * The methods of the client, grouped by resource. `npm run generate` writes the resources that have only standard operations. If an operation
 * is missing, or if a name matches no operation, this file does not compile.
 */
export const operations = {
  ...standardOperations,
  me: {
    /** Returns the account and key of this client. */
    get: "GET /api/v1/me",
  },
  rateLimit: {
    /**
     * Returns the hourly limit and the numbers of used and remaining requests. This request does not count against the limit. The request also
     * works when the limit is reached.
     */
    get: "GET /api/v1/rate-limit",
  },
  account: {
    /** Returns the plan of the account, and what its keys have used of the limits that they share. */
    limits: "GET /api/v1/account/limits",
  },
  usage: { get: "GET /api/v1/usage?", breakdown: "GET /api/v1/usage/breakdown?" },
  keys: {
    list: "LIST /api/v1/keys",
    /** Returns the secret. The secret is shown only once. If an earlier response with the secret was lost, rejects with a `SecretLostError`. */
    create: "POST /api/v1/keys",
    get: "GET /api/v1/keys/{id}",
    update: "PATCH /api/v1/keys/{id}",
    /** Revokes a key permanently. */
    revoke: "DELETE /api/v1/keys/{id}",
    /** Returns the new secret. The secret is shown only once. If an earlier response with the secret was lost, rejects with a `SecretLostError`. */
    rotate: "POST /api/v1/keys/{id}/rotate",
    /** Reports a leaked secret. This request does not contain the client's API key. */
    revokeLeaked: "POST /api/v1/keys/revoke-leaked",
  },
  webhooks: {
    list: "LIST /api/v1/webhooks",
    /** Returns the secret. The secret is shown only once. If an earlier response with the secret was lost, rejects with a `SecretLostError`. */
    create: "POST /api/v1/webhooks",
    get: "GET /api/v1/webhooks/{id}",
    update: "PATCH /api/v1/webhooks/{id}",
    delete: "DELETE /api/v1/webhooks/{id}",
    /** Returns the new secret. The secret is shown only once. If an earlier response with the secret was lost, rejects with a `SecretLostError`. */
    rotateSecret: "POST /api/v1/webhooks/{id}/rotate-secret",
    test: "POST /api/v1/webhooks/{id}/test",
    /** Sends past events to the webhook again. */
    redeliver: "POST /api/v1/webhooks/{id}/redeliver",
  },
  deliveries: {
    /** Lists the deliveries of a webhook. Takes the id of the webhook. */
    list: "LIST /api/v1/webhooks/{id}/deliveries",
    get: "GET /api/v1/deliveries/{id}",
    redeliver: "POST /api/v1/deliveries/{id}/redeliver",
    /** Attempts a pending delivery immediately, without waiting for the next scheduled attempt. */
    attempt: "POST /api/v1/deliveries/{id}/attempt",
  },
  eventTypes: { list: "GET /api/v1/event-types" },
  openapi: { get: "GET /api/v1/openapi.json", getYaml: "GET /api/v1/openapi.yaml" },
} as const satisfies Record<string, Record<string, OperationName>>;

export type Operations = typeof operations;

type Named = { [Resource in keyof Operations]: Operations[Resource][keyof Operations[Resource]] }[keyof Operations];
/** If an operation has no method, this type does not compile. The compile error names the missing operations. */
type Complete<_Missing extends never> = true;
export type EveryOperationHasAMethod = Complete<Exclude<OperationName, Named>>;
