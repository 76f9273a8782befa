import { STATUS_CODES } from "node:http";
import { createRoute, z } from "@hono/zod-openapi";
import { listActivity, type ReadEntry, readEntry } from "../../activity/read-activity.ts";
import { iso } from "../../clock.ts";
import { text, timeInput } from "../../http/inputs/values.ts";
import { timeOfId } from "../../ids.ts";
import { requireKey } from "../../keys/read-keys.ts";
import { reading } from "../acting.ts";
import { etagOfContent, respondOne } from "../middleware/conditional.ts";
import { requireScope } from "../route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { withConditions } from "../route-parts/requests.ts";
import { json, notModified, problems } from "../route-parts/responses.ts";
import { idInput, idParam, pageQuery, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

export const Entry = z
  .strictObject({
    id: z.string().openapi({ example: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708", description: "The X-Request-Id of the answer." }),
    at: time,
    method: z.string(),
    path: z.string().openapi({ description: "Without its query string." }),
    route: z.string().openapi({ description: "The path of the operation; /api/v1/* where none matched." }),
    status: z.int(),
    reason: z.string(),
    duration_ms: z.int(),
    key_id: z.string(),
    key_name: z.string(),
    ip: z.string().nullable().openapi({ description: "Cleared after 7 days." }),
    country: z.string().nullable(),
    user_agent: z.string().nullable(),
    error_code: z.string().nullable(),
    counted: z.boolean().openapi({ description: "Whether it used up one of the limit." }),
    count: z
      .int()
      .min(1)
      .openapi({ description: "1; in a flood of refusals one entry a second may stand for several, and says for how many." }),
    secret: z
      .enum(["current", "previous"])
      .openapi({ description: "Which secret of the key it came with: the present one, or one from before a rotation." }),
  })
  .openapi("ActivityEntry");

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

export const activity = createRouter();

const list = createRoute({
  method: "get",
  path: "/activity",
  operationId: "listActivity",
  summary: "List requests",
  description: "Newest first. A filtered page looks at 10,000 entries at most: it may be short, or empty, with `has_more` true.",
  tags,
  ...requireScope("activity:read"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      method: z.enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]).optional(),
      status: z
        .string()
        .regex(/^[1-5](xx|[0-9]{2})$/, "Must be a status code or a class, like 404 or 4xx.")
        .optional()
        .openapi({ example: "4xx", description: "A status code, 404, or a class, 4xx." }),
      key_id: idInput.optional(),
      path: text(1, 1024).optional().openapi({ description: "The whole path, as in the entry." }),
      from: timeInput.optional().openapi({ type: "string", format: "date-time", description: "Inclusive." }),
      to: timeInput.optional().openapi({ type: "string", format: "date-time", description: "Exclusive." }),
    }),
  },
  responses: { 200: json(pageOf(Entry, "ActivityPage"), "A page of the log.", "Link"), ...problems(400, 404) },
});

activity.openapi(list, async (c) => {
  const { limit, cursor, status, key_id: keyId, ...rest } = c.req.valid("query");
  const filter = { ...rest, keyId, status: status === undefined ? undefined : Number(status.replace("xx", "")) };
  const after = positionAt(c, cursor, z.string());
  const asking = reading(c);
  if (keyId !== undefined) await requireKey(asking, keyId);
  const { entries, next } = await listActivity(asking, { filter, after, limit });
  return respondPage(c, entries.map(entryJson), next);
});

const read = createRoute({
  method: "get",
  path: "/activity/{id}",
  operationId: "getActivityEntry",
  summary: "Get a request",
  tags,
  ...requireScope("activity:read"),
  ...withConditions,
  request: { params: idParam("req_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: json(Entry, "The entry.", "ETag"), ...notModified, ...problems(400, 404, 412) },
});

activity.openapi(read, async (c) => {
  const entry = entryJson(await readEntry(reading(c), c.req.valid("param").id));
  return respondOne(c, entry, etagOfContent(entry));
});
