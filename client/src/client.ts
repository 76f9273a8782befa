import createFetchClient, { type Client } from "openapi-fetch";
import type { Fetch } from "./attempt.ts";
import { requireBody, requireSecret } from "./errors.ts";
import { errorOf } from "./problem.ts";
import { type Resources, resourcesOf } from "./resources.ts";
import { type RetryOptions, retrying } from "./retry.ts";
import type { paths } from "./schema.ts";
import { userAgent } from "./user-agent.ts";

export interface ClientOptions extends RetryOptions {
  /** The URL of the service, for example "https://api.example.com". The URL may end with "/api/v1". */
  baseUrl: string;
  /** The API key, which starts with `dvo_`. */
  apiKey: string;
  /** The function that sends requests. The default is the platform's `fetch`. */
  fetch?: Fetch;
}

/** An openapi-fetch client with typed paths: `client.GET("/api/v1/me")`. */
export type ApiClient = Client<paths>;

/** The path for reporting leaked keys. A report is sent without an API key and without an Idempotency-Key. */
const reportOfLeak = "/api/v1/keys/revoke-leaked";

/**
 * Returns the root URL of the service. The paths of the OpenAPI document are appended to this URL. Throws a `TypeError` if `baseUrl` is not an
 * HTTP URL.
 */
function rootOf(baseUrl: string): string {
  if (!URL.canParse(baseUrl)) throw new TypeError(`baseUrl must be a URL like https://api.example.com, and is ${baseUrl}.`);
  const { origin, pathname, protocol } = new URL(baseUrl);
  if (protocol !== "https:" && protocol !== "http:") throw new TypeError(`baseUrl must begin with https://, and is ${baseUrl}.`);
  return origin + pathname.replace(/\/+$/, "").replace(/\/api\/v1$/, "");
}

/**
 * Creates a client that supports every operation. The types come from the OpenAPI document. You can call an operation by method, as in
 * `client.tasks.create(...)`, or by path, as in `client.POST("/api/v1/tasks", ...)`. If the service responds with an error, the call rejects
 * with a `ProblemError`. If a request fails and a retry is safe, the client retries the request. The client sends an `Idempotency-Key` with
 * each POST, except with reports of leaked keys. With this key, a retried POST takes effect only once.
 */
export function createClient({
  baseUrl,
  apiKey,
  fetch: send = (request) => fetch(request),
  ...defaults
}: ClientOptions): ApiClient & Resources {
  if (typeof apiKey !== "string" || apiKey === "") throw new TypeError("apiKey is missing: createClient needs a key, dvo_...");
  const client = createFetchClient<paths>({
    baseUrl: rootOf(baseUrl),
    fetch: retrying(send, defaults),
    // The service never sends redirects. If the client followed a redirect from another server, the client could reveal the API key and turn a
    // POST into a GET.
    redirect: "manual",
  });
  const agent = userAgent();
  client.use({
    onRequest({ request, schemaPath }) {
      if (agent !== undefined && !request.headers.has("User-Agent")) request.headers.set("User-Agent", agent);
      if (schemaPath === reportOfLeak) return request;
      request.headers.set("Authorization", `Bearer ${apiKey}`);
      if (request.method === "POST" && !request.headers.has("Idempotency-Key")) request.headers.set("Idempotency-Key", crypto.randomUUID());
      return request;
    },
    async onResponse({ request, response, schemaPath }) {
      const isNotModified = response.status === 304 && request.headers.has("If-None-Match");
      if (isNotModified) return;
      if (!response.ok) throw await errorOf(response);
      const isEmpty = request.method === "HEAD" || request.method === "DELETE" || schemaPath === reportOfLeak;
      if (!isEmpty) await requireBody(response);
      await requireSecret(response);
    },
  });
  return Object.assign(
    client,
    resourcesOf(client, (options) => retrying(send, { ...defaults, ...options })),
  );
}

/** Returns the response body of a call by path: `const task = await dataOf(client.GET("/api/v1/tasks/{id}", ...))`. */
export async function dataOf<Data>(call: Promise<{ data?: Data }>): Promise<Data> {
  const { data } = await call;
  return data as Data;
}
