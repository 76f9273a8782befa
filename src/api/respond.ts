import type { TypedResponse } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { JSONParsed } from "hono/utils/types";

// Typed for the route that gives them. What every response has is put on by the standard headers.

/** A JSON response. */
export const respondJson = <Body extends object, Status extends ContentfulStatusCode>(
  body: Body,
  status: Status,
  headers: Record<string, string> = {},
) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } }) as Response &
    TypedResponse<JSONParsed<Body>, Status, "json">;

/** A response whose bytes are there already. Its headers name its media type. */
export const respondBytes = <Body>(bytes: Uint8Array, headers: Record<string, string>) =>
  new Response(bytes, { headers }) as Response & TypedResponse<JSONParsed<Body>, 200, "json">;

/** A response without a body. */
export const respondEmpty = <Status extends 202 | 204 | 304>(status: Status, headers: Record<string, string> = {}) =>
  new Response(null, { status, headers }) as Response & TypedResponse<null, Status, "body">;
