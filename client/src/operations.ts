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
 * Every operation of the document, as the table below names it: `LIST` for the GET of pages, a question mark where a GET takes a query.
 */
export type OperationName = {
  [Path in keyof paths]: (paths[Path] extends { get: object } ? ReadOf<Path> : never) | WriteOf<Path>;
}[keyof paths];

/**
 * The methods of the client, by resource. Those of a resource that has only standard operations are generated. One that is missing here, or
 * names no operation, fails to compile.
 */
export const operations = {
  ...standardOperations,
  me: {
    /** The account and key of this client. */
    get: "GET /api/v1/me",
  },
  rateLimit: {
    /** What is left of the hour. Not counted, and served even when the limit is reached. */
    get: "GET /api/v1/rate-limit",
  },
  usage: { get: "GET /api/v1/usage?", breakdown: "GET /api/v1/usage/breakdown?" },
  keys: {
    list: "LIST /api/v1/keys",
    /** The response has the secret, this once. Rejects with a `SecretLostError` if the response with it got lost. */
    create: "POST /api/v1/keys",
    get: "GET /api/v1/keys/{id}",
    update: "PATCH /api/v1/keys/{id}",
    /** Ends a key for good. */
    revoke: "DELETE /api/v1/keys/{id}",
    /** The response has the new secret, this once. Rejects with a `SecretLostError` if the response with it got lost. */
    rotate: "POST /api/v1/keys/{id}/rotate",
    /** Reports a secret that leaked. Sent without the key of this client. */
    revokeLeaked: "POST /api/v1/keys/revoke-leaked",
  },
  webhooks: {
    list: "LIST /api/v1/webhooks",
    /** The response has the secret, this once. Rejects with a `SecretLostError` if the response with it got lost. */
    create: "POST /api/v1/webhooks",
    get: "GET /api/v1/webhooks/{id}",
    update: "PATCH /api/v1/webhooks/{id}",
    delete: "DELETE /api/v1/webhooks/{id}",
    /** The response has the new secret, this once. Rejects with a `SecretLostError` if the response with it got lost. */
    rotateSecret: "POST /api/v1/webhooks/{id}/rotate-secret",
    test: "POST /api/v1/webhooks/{id}/test",
    /** Sends past events again. */
    redeliver: "POST /api/v1/webhooks/{id}/redeliver",
  },
  deliveries: {
    /** Takes the id of the webhook. */
    list: "LIST /api/v1/webhooks/{id}/deliveries",
    get: "GET /api/v1/deliveries/{id}",
    redeliver: "POST /api/v1/deliveries/{id}/redeliver",
    /** Makes the next attempt of a pending delivery now. */
    attempt: "POST /api/v1/deliveries/{id}/attempt",
  },
  eventTypes: { list: "GET /api/v1/event-types" },
  openapi: { get: "GET /api/v1/openapi.json", getYaml: "GET /api/v1/openapi.yaml" },
} as const satisfies Record<string, Record<string, OperationName>>;

export type Operations = typeof operations;

type Named = { [Resource in keyof Operations]: Operations[Resource][keyof Operations[Resource]] }[keyof Operations];
/** Fails to compile, and names them, if operations have no method. */
type Complete<_Missing extends never> = true;
export type EveryOperationHasAMethod = Complete<Exclude<OperationName, Named>>;
