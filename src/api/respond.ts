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

/** A JSON response whose body is there already, as a stream. */
export const respondStream = <Body>(body: ReadableStream | null, headers: Record<string, string>) =>
  new Response(body, { headers: { "Content-Type": "application/json", ...headers } }) as Response &
    TypedResponse<JSONParsed<Body>, 200, "json">;

/** A response of text that is there already, as a stream. Its headers name its media type. */
export const respondText = (body: ReadableStream | null, headers: Record<string, string>) =>
  new Response(body, { headers }) as Response & TypedResponse<string, 200, "text">;

/** A response without a body. */
export const respondEmpty = <Status extends 202 | 204 | 304>(status: Status, headers: Record<string, string> = {}) =>
  new Response(null, { status, headers }) as Response & TypedResponse<null, Status, "body">;
