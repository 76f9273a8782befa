import type { TypedResponse } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { JSONParsed } from "hono/utils/types";
import { type ResponseContext, respond } from "../http/standard-headers.ts";

// These functions respond with the standard headers. The type of each response matches the type that the route declares.

export const respondJson = <Body extends object, Status extends ContentfulStatusCode>(
  c: ResponseContext,
  body: Body,
  status: Status,
  headers: Record<string, string> = {},
) =>
  respond(c, JSON.stringify(body), status, { "Content-Type": "application/json", ...headers }) as Response &
    TypedResponse<JSONParsed<Body>, Status, "json">;

/** Responds with bytes that are already encoded. `headers` must include the Content-Type. */
export const respondBytes = <Body>(c: ResponseContext, bytes: Uint8Array, headers: Record<string, string>, status = 200) =>
  respond(c, bytes, status, headers) as Response & TypedResponse<JSONParsed<Body>, 200, "json">;

export const respondEmpty = <Status extends 202 | 204 | 304>(c: ResponseContext, status: Status, headers: Record<string, string> = {}) =>
  respond(c, null, status, headers) as Response & TypedResponse<null, Status, "body">;
