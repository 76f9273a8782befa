import type { Fetch } from "./attempt.ts";
import type { ApiClient } from "./client.ts";
import { type OperationName, type Operations, operations } from "./operations.ts";
import { type ItemOf, List, type ListPath, type Page } from "./pages.ts";
import type { RetryOptions } from "./retry.ts";
import type { paths } from "./schema.ts";

/** The options that every method accepts as its last argument. */
export interface CallOptions extends RetryOptions {
  /** Stops the call immediately. The signal also ends waits between attempts and stops the loading of further pages. */
  signal?: AbortSignal;
}

/** The options of a POST. */
export interface PostOptions extends CallOptions {
  /**
   * The `Idempotency-Key` of the call. Calls with the same key take effect only once in 24 hours, even if your program restarts. By default,
   * each call gets a new key.
   */
  idempotencyKey?: string;
}

/** The options of a PATCH or DELETE. */
export interface ChangeOptions extends CallOptions {
  /**
   * The `ETag` of the version that you want to change: `responseOf(task).headers.get("ETag")`. If the resource has another version, the call
   * rejects with 412 `precondition_failed`.
   */
  ifMatch?: string;
}

type VerbOf<Name extends OperationName> = Name extends `${infer Verb} ${string}` ? Verb : never;
type PathOf<Name extends OperationName> = Name extends `${string} ${infer Path extends keyof paths}`
  ? Path
  : Name extends `${string} ${infer Path extends keyof paths}?`
    ? Path
    : never;
type OperationOf<Name extends OperationName> = paths[PathOf<Name>][Lowercase<VerbOf<Name>> extends infer Method
  ? Method extends keyof paths[PathOf<Name>]
    ? Method
    : "get"
  : never];

type Json<Content> = Content extends { content: { "application/json": infer Body } } ? Body : never;
/** The body that a method can return. Bodies with a null secret are excluded. For such a body, the method rejects with a `SecretLostError`. */
type Shown<Body> = Body extends { secret_key: string | null } | { secret: string | null }
  ? Body extends { secret_key: string } | { secret: string }
    ? Body
    : never
  : Body;
type SuccessOf<Operation> = Operation extends { responses: infer Responses }
  ? Shown<{ [Status in keyof Responses & (200 | 201 | 202)]: Json<Responses[Status]> }[keyof Responses & (200 | 201 | 202)]>
  : never;
type OutputOf<Name extends OperationName> = Name extends `${string}.yaml`
  ? string
  : [SuccessOf<OperationOf<Name>>] extends [never]
    ? undefined
    : SuccessOf<OperationOf<Name>>;

type IdOf<Name extends OperationName> = Name extends `${string}{id}${string}` ? [id: string] : [];
type BodyOf<Operation> = Operation extends { requestBody: infer Body }
  ? [body: Json<Body>]
  : Operation extends { requestBody?: infer Body }
    ? [body?: Json<NonNullable<Body>>]
    : [];
type QueryOf<Operation> = Operation extends { parameters: { query: infer Query } }
  ? [query: Query]
  : Operation extends { parameters: { query?: infer Query } }
    ? [query?: NonNullable<Query>]
    : [];
type InputOf<Name extends OperationName> =
  VerbOf<Name> extends "POST" | "PATCH"
    ? BodyOf<OperationOf<Name>>
    : Name extends `LIST ${string}` | `${string}?`
      ? QueryOf<OperationOf<Name>>
      : [];
type OptionsOf<Name extends OperationName> =
  VerbOf<Name> extends "POST" ? PostOptions : VerbOf<Name> extends "PATCH" | "DELETE" ? ChangeOptions : CallOptions;

type Method<Name extends OperationName> = (
  ...args: [...IdOf<Name>, ...InputOf<Name>, options?: OptionsOf<Name>]
) => Name extends `LIST ${infer Path extends ListPath}` ? List<ItemOf<Path>> : Promise<OutputOf<Name>>;

/** A method for each operation: `client.tasks.create({ title: "Release" })`. */
export type Resources = {
  readonly [Resource in keyof Operations]: {
    readonly [Name in keyof Operations[Resource]]: Operations[Resource][Name] extends OperationName
      ? Method<Operations[Resource][Name]>
      : never;
  };
};

const responses = new WeakMap<object, Response>();

/**
 * Returns the HTTP response of a result, for example to read the response headers. If no method of the client returned the object, returns
 * undefined.
 */
export const responseOf = (result: object): Response | undefined => responses.get(result);

type Send = (path: string, init: object) => Promise<{ data: unknown; response: Response }>;

function idIn(name: string, args: unknown[]): { id: string } | undefined {
  if (!name.includes("{id}")) return undefined;
  const id = args.shift();
  if (typeof id !== "string" || id === "") throw new TypeError(`${name} needs an id, and got ${JSON.stringify(id)}.`);
  return { id };
}

/** Returns the client method of an operation. `retryingWith` returns a `fetch` function that uses the retry options of one call. */
function methodOf(client: ApiClient, name: OperationName, retryingWith: (options: RetryOptions) => Fetch) {
  const [verb = "", target = ""] = name.split(" ");
  const path = target.replace("?", "");
  const isList = verb === "LIST";
  const send = client[isList ? "GET" : (verb as "GET")] as unknown as Send;
  return (...args: unknown[]) => {
    const id = idIn(name, args);
    const input = verb === "GET" || verb === "DELETE" ? (target.endsWith("?") ? args.shift() : undefined) : args.shift();
    const { signal, idempotencyKey, ifMatch, ...retry } = (args.shift() ?? {}) as PostOptions & ChangeOptions;
    // `fetch` does not send empty headers. The service would therefore never see an empty `Idempotency-Key` or an empty `If-Match`.
    if (idempotencyKey === "" || ifMatch === "") throw new TypeError(`${name}: idempotencyKey and ifMatch must not be empty.`);
    const header = {
      ...(idempotencyKey !== undefined && { "Idempotency-Key": idempotencyKey }),
      ...(ifMatch !== undefined && { "If-Match": ifMatch }),
    };
    const call = async (query: unknown, body: unknown) => {
      const { data, response } = await send(path, {
        params: { path: id, query, header },
        body,
        signal,
        parseAs: path.endsWith(".yaml") ? "text" : "json",
        fetch: retryingWith(retry),
      });
      if (typeof data === "object" && data !== null) responses.set(data, response);
      return data;
    };
    if (isList)
      return new List(
        (page) =>
          call(
            {
              ...(page.limit !== undefined && { limit: page.limit }),
              ...(input as object),
              ...(page.cursor !== undefined && { cursor: page.cursor }),
            },
            undefined,
          ) as Promise<Page<unknown>>,
        signal,
      );
    return verb === "GET" ? call(input, undefined) : call(undefined, input);
  };
}

export const resourcesOf = (client: ApiClient, retryingWith: (options: RetryOptions) => Fetch): Resources =>
  Object.fromEntries(
    Object.entries(operations).map(([resource, methods]) => [
      resource,
      Object.fromEntries(Object.entries(methods).map(([method, name]) => [method, methodOf(client, name, retryingWith)])),
    ]),
  ) as unknown as Resources;
