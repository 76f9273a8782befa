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
 * The names of all operations in the OpenAPI document, in the form that `operations` uses below. `LIST` stands for a GET that returns pages. A
 * trailing question mark stands for a GET that takes a query.
 */
export type OperationName = {
  [Path in keyof paths]: (paths[Path] extends { get: object } ? ReadOf<Path> : never) | WriteOf<Path>;
}[keyof paths];

/**
 * The methods of the client, by resource. `npm run generate` writes the resources that have only standard operations. This file fails to compile if
 * an operation is missing or a name matches no operation.
 */
export const operations = {
  ...standardOperations,
  me: {
    /** Returns the account and key of this client. */
    get: "GET /api/v1/me",
  },
  rateLimit: {
    /**
     * Returns the hourly limit and the numbers of used and remaining requests. This request does not count against the limit and works even when the
     * limit is reached.
     */
    get: "GET /api/v1/rate-limit",
  },
  usage: { get: "GET /api/v1/usage?", breakdown: "GET /api/v1/usage/breakdown?" },
  keys: {
    list: "LIST /api/v1/keys",
    /** Returns the secret, which is shown only once. Rejects with a `SecretLostError` if the response with the secret got lost. */
    create: "POST /api/v1/keys",
    get: "GET /api/v1/keys/{id}",
    update: "PATCH /api/v1/keys/{id}",
    /** Revokes a key permanently. */
    revoke: "DELETE /api/v1/keys/{id}",
    /** Returns the new secret, which is shown only once. Rejects with a `SecretLostError` if the response with the secret got lost. */
    rotate: "POST /api/v1/keys/{id}/rotate",
    /** Reports a leaked secret. This request does not send the key of the client. */
    revokeLeaked: "POST /api/v1/keys/revoke-leaked",
  },
  webhooks: {
    list: "LIST /api/v1/webhooks",
    /** Returns the secret, which is shown only once. Rejects with a `SecretLostError` if the response with the secret got lost. */
    create: "POST /api/v1/webhooks",
    get: "GET /api/v1/webhooks/{id}",
    update: "PATCH /api/v1/webhooks/{id}",
    delete: "DELETE /api/v1/webhooks/{id}",
    /** Returns the new secret, which is shown only once. Rejects with a `SecretLostError` if the response with the secret got lost. */
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
    /** Attempts a pending delivery now, before its next scheduled attempt. */
    attempt: "POST /api/v1/deliveries/{id}/attempt",
  },
  eventTypes: { list: "GET /api/v1/event-types" },
  openapi: { get: "GET /api/v1/openapi.json", getYaml: "GET /api/v1/openapi.yaml" },
} as const satisfies Record<string, Record<string, OperationName>>;

export type Operations = typeof operations;

type Named = { [Resource in keyof Operations]: Operations[Resource][keyof Operations[Resource]] }[keyof Operations];
/** Fails to compile if an operation has no method. The compile error names the missing operations. */
type Complete<_Missing extends never> = true;
export type EveryOperationHasAMethod = Complete<Exclude<OperationName, Named>>;
