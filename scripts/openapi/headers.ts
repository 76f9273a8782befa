const header = (description: string, schema: { type: "string" | "integer"; enum?: string[]; examples?: unknown[] }) => ({
  description,
  schema,
});

/** The headers of answers, by name. */
export const headers = {
  "X-Request-Id": header("`req_...`: the id of the entry in the activity log.", { type: "string" }),
  "RateLimit-Policy": header("IETF draft: the limit and its window in seconds. With every recognised key, as are the following.", {
    type: "string",
    examples: ['"hour";q=5000;w=3600'],
  }),
  RateLimit: header("IETF draft: what remains, and the seconds until the window ends.", {
    type: "string",
    examples: ['"hour";r=1650;t=1312'],
  }),
  "X-RateLimit-Limit": header("Requests an hour.", { type: "integer" }),
  "X-RateLimit-Remaining": header("The requests left.", { type: "integer" }),
  "X-RateLimit-Used": header("The requests used.", { type: "integer" }),
  "X-RateLimit-Reset": header("When the window ends, in seconds since the epoch.", { type: "integer" }),
  "Retry-After": header("Seconds to wait.", { type: "integer" }),
  "WWW-Authenticate": header("The challenge (RFC 6750). On a 403, only where a scope is missing.", { type: "string" }),
  "Accept-Post": header("The media types that a POST here takes.", { type: "string" }),
  "Accept-Patch": header("The media types that a PATCH here takes.", { type: "string" }),
  "Accept-Encoding": header("`identity`: a body may not be compressed (RFC 9110, 12.5.3).", { type: "string", enum: ["identity"] }),
  "Idempotent-Replayed": header("`true` where this answers a repetition with the same Idempotency-Key.", {
    type: "string",
    enum: ["true"],
  }),
  ETag: header("The version of the resource.", { type: "string" }),
  Location: header("The path of the new resource.", { type: "string" }),
  Link: header('The next page, `<...>; rel="next"`; absent on the last.', { type: "string" }),
};
