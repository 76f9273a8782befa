import createFetchClient, { type Client } from "openapi-fetch";
import type { Fetch } from "./attempt.ts";
import { requireBody, requireSecret } from "./errors.ts";
import { errorOf } from "./problem.ts";
import { type Resources, resourcesOf } from "./resources.ts";
import { type RetryOptions, retrying } from "./retry.ts";
import type { paths } from "./schema.ts";
import { userAgent } from "./user-agent.ts";

export interface ClientOptions extends RetryOptions {
  /** The URL of the service: "https://api.example.com", with or without "/api/v1". */
  baseUrl: string;
  /** The API key, `dvo_...`. */
  apiKey: string;
  /** The function that sends requests. The default is the platform's `fetch`. */
  fetch?: Fetch;
}

/** A client of openapi-fetch with typed paths: `client.GET("/api/v1/me")`. */
export type ApiClient = Client<paths>;

/** The path for reports of leaked keys. A report needs no API key and takes no Idempotency-Key. */
const reportOfLeak = "/api/v1/keys/revoke-leaked";

/** Returns the URL that the paths of the OpenAPI document are appended to. Throws a `TypeError` if `baseUrl` is not an HTTP URL. */
function rootOf(baseUrl: string): string {
  if (!URL.canParse(baseUrl)) throw new TypeError(`baseUrl must be a URL like https://api.example.com, and is ${baseUrl}.`);
  const { origin, pathname, protocol } = new URL(baseUrl);
  if (protocol !== "https:" && protocol !== "http:") throw new TypeError(`baseUrl must begin with https://, and is ${baseUrl}.`);
  return origin + pathname.replace(/\/+$/, "").replace(/\/api\/v1$/, "");
}

/**
 * Creates a client for every operation, typed from the OpenAPI document. Call an operation by method, `client.tasks.create(...)`, or by path,
 * `client.POST("/api/v1/tasks", ...)`. A call rejects with a `ProblemError` if the service responds with an error. The client retries a failed
 * request if a retry is safe. Each POST has an `Idempotency-Key`, so a retried POST acts only once.
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
    // The service never redirects. Following a redirect of another server could reveal the key and turn a POST into a GET.
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

/** Returns the body of a call by path: `const task = await dataOf(client.GET("/api/v1/tasks/{id}", ...))`. */
export async function dataOf<Data>(call: Promise<{ data?: Data }>): Promise<Data> {
  const { data } = await call;
  return data as Data;
}
