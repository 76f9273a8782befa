import { STATUS_CODES } from "node:http";
import { createRoute, z } from "@hono/zod-openapi";
import { maxShownPath } from "../../credentials/mask-keys.ts";
import { requireKey } from "../../keys/read-keys.ts";
import { timeOfId } from "../../lib/ids.ts";
import { idInput, text, timeSpan } from "../../lib/inputs/values.ts";
import { methodForm } from "../../lib/net/http-method.ts";
import { iso } from "../../lib/time/clock.ts";
import { isDegraded } from "../../log/entry.ts";
import { listActivity, type ReadEntry, readEntry } from "../../log/read/read-activity.ts";
import { notReported } from "../../usage/rollups.ts";
import { etagOfContent, respondOne } from "../conditional.ts";
import { contextOf } from "../operation-contexts.ts";
import { failsWith, requireScope, sharesCpu } from "../route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { get, withConditions } from "../route-parts/requests.ts";
import { json, notModified } from "../route-parts/responses.ts";
import { idParam, intOrNull, pageQuery, severalOf, stringOrNull, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

export const Entry = z
  .strictObject({
    id: z.string().meta({
      description: "The id of the entry, which is the `X-Request-Id` of the response.",
      example: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
    }),
    at: time.meta({ description: "The time when the request arrived." }),
    method: z.string().meta({ description: "The HTTP method of the request.", example: "GET" }),
    path: z.string().meta({
      description: `The first ${maxShownPath} characters of the request path, without the query string.`,
      example: "/api/v1/usage",
    }),
    route: z
      .string()
      .meta({ description: "The path of the matching operation, or `/api/v1/*` if no operation matched.", example: "/api/v1/usage" }),
    status: intOrNull.meta({
      description: "The HTTP status of the response, or null if the status was not reported.",
      example: 200,
    }),
    reason: z
      .string()
      .meta({ description: "The reason phrase of the HTTP status, or an empty string if the status was not reported.", example: "OK" }),
    duration_ms: intOrNull.meta({
      description:
        "The time from the arrival of the request until the response is ready, in milliseconds. Null if the time was not reported.",
      example: 12,
    }),
    key_id: z.string().meta({ description: "The id of the key that the request used.", example: "key_4fPq2rT8vX0zB6dH" }),
    key_name: z.string().meta({ description: "The current name of the key that the request used.", example: "Continuous integration" }),
    ip: stringOrNull.meta({
      description: "The IP address that the request came from. The address is kept as long as the entry.",
      example: "203.0.113.7",
    }),
    country: stringOrNull.meta({
      description: "The country code of the IP address (ISO 3166-1), or null if the country is unknown.",
      example: "GB",
    }),
    user_agent: stringOrNull.meta({ description: "The first 128 characters of the `User-Agent` header.", example: "acme-sync/1.4" }),
    error_code: stringOrNull.meta({ description: "The `code` of the error response, or null if there was no error.", example: null }),
    counted: z.boolean().meta({ description: "Whether the request counted against the limit.", example: true }),
    degraded: z.boolean().meta({
      description: "Whether the request was admitted without being counted, because its limits could not be reached for a moment.",
      example: false,
    }),
    count: z.int().min(1).meta({
      example: 1,
      description:
        "The number of requests that the entry represents, usually 1. Requests that do not count against the limit may share one entry if they arrive in the same second. If a client varies such requests a lot, an entry without an `ip` stands for those that remain. Its other fields are those of one of the requests.",
    }),
    secret: z.enum(["current", "previous"]).meta({
      description: "The secret that the request used: the `current` secret of the key, or the `previous` secret from before a rotation.",
      example: "current",
    }),
  })
  .openapi("ActivityEntry", { description: "A logged request." });

const Page = pageOf(Entry, "ActivityPage", {
  looked_back_to: time.optional().meta({
    description: "The time down to which the log was searched. Only a page that ended before it was full has this member.",
  }),
  as_of: time.optional().meta({
    description: "The time up to which the log is complete. Only a page that may lack the latest requests has this member.",
  }),
});

const tags = ["Activity"];

const entryJson = (entry: ReadEntry): z.infer<typeof Entry> => ({
  id: entry.id,
  at: iso(timeOfId(entry.id)),
  method: entry.method,
  path: entry.path,
  route: entry.route,
  status: entry.status,
  reason: STATUS_CODES[entry.status ?? 0] ?? "",
  duration_ms: entry.durationMs,
  key_id: entry.keyId,
  key_name: entry.keyName ?? "",
  ip: entry.ip,
  country: entry.country,
  user_agent: entry.userAgent,
  error_code: entry.errorCode,
  counted: entry.counted,
  degraded: isDegraded(entry),
  count: entry.count,
  secret: entry.secret,
});

/** Returns the number by which the log is filtered. */
const statusOf = (text: string): number => (text === "none" ? notReported : Number(text.replace("xx", "")));
const statusForm = /^([1-5](xx|[0-9]{2})|none)$/;

export const routes = createRouter();

const list = createRoute({
  ...get("/activity", "listActivity", "List requests"),
  description:
    "Lists the requests that used a key of the account, newest first. A request is in the log within a second after its response. With filters, a page can end before it is full, because each request searches only a part of the log. The page then has `looked_back_to`, and its cursor continues the search.",
  tags,
  ...requireScope("activity:read"),
  ...failsWith("not_found"),
  ...sharesCpu,
  request: {
    query: z.strictObject({
      ...pageQuery,
      method: z
        .string()
        .regex(methodForm, "Must be an HTTP method.")
        .optional()
        .meta({ description: "Returns only requests with exactly this method, for example `GET` or `OPTIONS`.", example: "GET" }),
      status: severalOf(
        z.string().regex(statusForm, "Must be a status code or a class, like 404 or 4xx, or none."),
        { pattern: statusForm.source },
        20,
        "Returns only requests with these statuses or status classes, for example 404 or 4xx. `none` selects requests whose response was not reported. At most 20 values are allowed.",
      ).meta({ example: ["4xx"] }),
      key_id: idInput.optional().meta({ description: "Returns only requests that used this key.", example: "key_4fPq2rT8vX0zB6dH" }),
      path: text(1, 1024)
        .optional()
        .meta({ description: "Returns only requests whose `path` is exactly this text.", example: "/api/v1/usage" }),
      ...timeSpan,
    }),
  },
  responses: { 200: json(Page, "A page of activity entries.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, status, key_id: keyId, ...rest } = c.req.valid("query");
  const filter = { ...rest, keyId, statuses: status?.map(statusOf) };
  const after = positionAt(c, cursor, z.string());
  const context = contextOf(c);
  if (keyId !== undefined) await requireKey(context, keyId);
  const { entries, next, lookedBackTo, asOf } = await listActivity(context, { filter, after, limit });
  return respondPage(c, entries.map(entryJson), next, {
    ...(lookedBackTo === null ? {} : { looked_back_to: iso(lookedBackTo) }),
    ...(asOf === null ? {} : { as_of: iso(asOf) }),
  });
});

const read = createRoute({
  ...get("/activity/{id}", "getActivityEntry", "Get a request"),
  description: "Returns the activity entry of one request. Use the `X-Request-Id` of the response as the id.",
  tags,
  ...requireScope("activity:read"),
  ...withConditions,
  ...sharesCpu,
  request: { params: idParam("req_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: json(Entry, "The activity entry.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const entry = entryJson(await readEntry(contextOf(c), c.req.valid("param").id));
  return respondOne(c, entry, etagOfContent(entry));
});
