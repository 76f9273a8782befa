import { STATUS_CODES } from "node:http";
import { createRoute, z } from "@hono/zod-openapi";
import { logContext } from "../api/acting.ts";
import { etagOfContent, respondOne } from "../api/middleware/conditional.ts";
import { failsWith, requireScope } from "../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../api/route-parts/pages.ts";
import { withConditions } from "../api/route-parts/requests.ts";
import { json, notModified } from "../api/route-parts/responses.ts";
import { idParam, pageQuery, severalOf, time } from "../api/route-parts/schemas.ts";
import { createRouter } from "../api/router.ts";
import { maxShownPath } from "../http/request-path.ts";
import { timeOfId } from "../ids/ids.ts";
import { idInput, text, timeSpan } from "../inputs/values.ts";
import { requireKey } from "../keys/read-keys.ts";
import { iso } from "../time/clock.ts";
import { listActivity, type ReadEntry, readEntry } from "./read-activity.ts";

export const Entry = z
  .strictObject({
    id: z
      .string()
      .meta({ description: "The id of the entry: the `X-Request-Id` of the response.", example: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    at: time.meta({ description: "When the request came." }),
    method: z.string().meta({ description: "Its method.", example: "GET" }),
    path: z
      .string()
      .meta({ description: `Its path, without the query string: the first ${maxShownPath} characters.`, example: "/api/v1/tasks" }),
    route: z.string().meta({ description: "The path of the operation; `/api/v1/*` where none matched.", example: "/api/v1/tasks" }),
    status: z.int().meta({ description: "The status of the response.", example: 200 }),
    reason: z.string().meta({ description: "The reason phrase of the status.", example: "OK" }),
    duration_ms: z
      .int()
      .meta({ description: "The time from reaching the Worker until the response is ready, in milliseconds.", example: 12 }),
    key_id: z.string().meta({ description: "The key that it came with.", example: "key_4fPq2rT8vX0zB6dH" }),
    key_name: z.string().meta({ description: "The current name of that key.", example: "Continuous integration" }),
    ip: z.string().nullable().meta({ description: "The address that it came from. Kept as long as the entry.", example: "203.0.113.7" }),
    country: z.string().nullable().meta({ description: "The country of that address, ISO 3166-1, where that is known.", example: "GB" }),
    user_agent: z.string().nullable().meta({ description: "Its `User-Agent`: the first 128 characters.", example: "acme-sync/1.4" }),
    error_code: z.string().nullable().meta({ description: "The `code` of the problem; null where it was served.", example: null }),
    counted: z.boolean().meta({ description: "Whether the request counted against the limit.", example: true }),
    count: z.int().min(1).meta({
      example: 1,
      description:
        "1. Requests that use none of the limit, refused or not, may share one entry a second, which says for how many it stands.",
    }),
    secret: z.enum(["current", "previous"]).meta({
      description: "Which secret of the key it came with: the `current` one, or the `previous` one, from before a rotation.",
      example: "current",
    }),
  })
  .openapi("ActivityEntry", { description: "One request of the log." });

const tags = ["Activity"];

const entryJson = (entry: ReadEntry): z.infer<typeof Entry> => ({
  id: entry.id,
  at: iso(timeOfId(entry.id)),
  method: entry.method,
  path: entry.path,
  route: entry.route,
  status: entry.status,
  reason: STATUS_CODES[entry.status] ?? "",
  duration_ms: entry.durationMs,
  key_id: entry.keyId,
  key_name: entry.keyName ?? "",
  ip: entry.ip,
  country: entry.country,
  user_agent: entry.userAgent,
  error_code: entry.errorCode,
  counted: entry.counted,
  count: entry.count,
  secret: entry.secret ?? "current",
});

const statusForm = /^[1-5](xx|[0-9]{2})$/;

export const routes = createRouter();

const list = createRoute({
  method: "get",
  path: "/activity",
  operationId: "listActivity",
  summary: "List requests",
  description:
    "The log of requests that came with a key of the account, newest first; within two seconds of its answer a request is there. A filtered page looks at 10,000 entries at most: it may be short, or empty, with `has_more` true.",
  tags,
  ...requireScope("activity:read"),
  ...failsWith("not_found"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      method: z
        .enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
        .optional()
        .meta({ description: "Only this method: `GET`, `HEAD`, `POST`, `PUT`, `PATCH` or `DELETE`." }),
      status: severalOf(
        z.string().regex(statusForm, "Must be a status code or a class, like 404 or 4xx."),
        { pattern: statusForm.source },
        20,
        "Only these statuses, like 404, or classes, like 4xx: up to 20.",
      ).meta({ example: ["4xx"] }),
      key_id: idInput.optional().meta({ description: "Only requests with this key.", example: "key_4fPq2rT8vX0zB6dH" }),
      path: text(1, 1024).optional().meta({ description: "Only this path, in whole, as in the entry.", example: "/api/v1/tasks" }),
      ...timeSpan,
    }),
  },
  responses: { 200: json(pageOf(Entry, "ActivityPage"), "A page of the log.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, status, key_id: keyId, ...rest } = c.req.valid("query");
  const filter = { ...rest, keyId, statuses: status?.map((each) => Number(each.replace("xx", ""))) };
  const after = positionAt(c, cursor, z.string());
  const context = logContext(c);
  if (keyId !== undefined) await requireKey(context, keyId);
  const { entries, next } = await listActivity(context, { filter, after, limit });
  return respondPage(c, entries.map(entryJson), next);
});

const read = createRoute({
  method: "get",
  path: "/activity/{id}",
  operationId: "getActivityEntry",
  summary: "Get a request",
  description: "One request of the log, by its `X-Request-Id`.",
  tags,
  ...requireScope("activity:read"),
  ...withConditions,
  request: { params: idParam("req_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: json(Entry, "The entry.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const entry = entryJson(await readEntry(logContext(c), c.req.valid("param").id));
  return respondOne(c, entry, etagOfContent(entry));
});
