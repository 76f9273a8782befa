const header = (description: string, schema: { type: "string" | "integer"; enum?: string[]; examples?: unknown[] }) => ({
  description,
  schema,
});

/** The response headers of the API, by name. */
export const headers = {
  "X-Request-Id": header("The id of the request, `req_...`. If the request has an activity entry, the entry has the same id.", {
    type: "string",
  }),
  "RateLimit-Policy": header(
    "For each limit of the key: its units and its period in seconds (IETF draft). Every response to a request with a known key has all rate limit headers.",
    {
      type: "string",
      examples: ['"second";q=20;w=1, "hour";q=5000;w=3600'],
    },
  ),
  RateLimit: header("For each limit of the key: the units left, and the seconds until all of it is available again (IETF draft).", {
    type: "string",
    examples: ['"second";r=19;t=1, "hour";r=1650;t=1312'],
  }),
  "X-RateLimit-Limit": header("The units of the limit per hour. With a 429, the units of the limit that refused the request.", {
    type: "integer",
  }),
  "X-RateLimit-Remaining": header("The units left of this limit.", { type: "integer" }),
  "X-RateLimit-Used": header("The units used of this limit.", { type: "integer" }),
  "X-RateLimit-Reset": header("The time when all of this limit is available again, in seconds since the Unix epoch.", { type: "integer" }),
  "Retry-After": header("The number of seconds to wait before the next request.", { type: "integer" }),
  "WWW-Authenticate": header("The authentication challenge (RFC 6750). A 403 response has this header only if a scope is missing.", {
    type: "string",
  }),
  "Accept-Post": header("The media types that a POST to this path accepts.", { type: "string" }),
  "Accept-Patch": header("The media types that a PATCH to this path accepts.", { type: "string" }),
  "Accept-Encoding": header("The supported encoding of request bodies: `identity`, which means uncompressed (RFC 9110, 12.5.3).", {
    type: "string",
    enum: ["identity"],
  }),
  "Idempotent-Replayed": header("`true` if the response repeats the stored response of an earlier request with the same Idempotency-Key.", {
    type: "string",
    enum: ["true"],
  }),
  ETag: header("The entity tag of the current version of the resource.", { type: "string" }),
  Location: header("The path of the new resource.", { type: "string" }),
  Link: header('The link to the next page, `<...>; rel="next"`. The last page has no `Link` header.', { type: "string" }),
};
