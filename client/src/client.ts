import createFetchClient, { type Client } from "openapi-fetch";
import { errorOf } from "./problem.ts";
import { type RetryOptions, retrying } from "./retry.ts";
import type { paths } from "./schema.ts";

export interface ClientOptions extends RetryOptions {
  /** The origin of the service: "https://api.example.com". */
  baseUrl: string;
  /** `dvo_...` */
  apiKey: string;
  /** What sends requests; by default that of the platform. */
  fetch?: (request: Request) => Promise<Response>;
}

export type ApiClient = Client<paths>;

/** Reports of leaked keys need no key, and take no Idempotency-Key. */
const reportOfLeak = "/api/v1/keys/revoke-leaked";

/**
 * A client of every operation, typed from the OpenAPI document. An answer that is no success rejects with a `ProblemError`. What the service
 * asks to send again is sent again after as long as it says; each POST has an `Idempotency-Key`, so that it acts once.
 */
export function createClient({ baseUrl, apiKey, fetch: send = (request) => fetch(request), ...retry }: ClientOptions): ApiClient {
  const client = createFetchClient<paths>({ baseUrl, fetch: retrying(send, retry) });
  client.use({
    onRequest({ request, schemaPath }) {
      if (schemaPath === reportOfLeak) return request;
      request.headers.set("Authorization", `Bearer ${apiKey}`);
      if (request.method === "POST" && !request.headers.has("Idempotency-Key")) request.headers.set("Idempotency-Key", crypto.randomUUID());
      return request;
    },
    async onResponse({ response }) {
      if (!response.ok && response.status !== 304) throw await errorOf(response);
    },
  });
  return client;
}

/** The body of a call: `const task = await dataOf(client.GET("/api/v1/tasks/{id}", ...))`. */
export async function dataOf<Data>(call: Promise<{ data?: Data }>): Promise<Data> {
  const { data } = await call;
  return data as Data;
}
