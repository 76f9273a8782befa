import { createRoute, z } from "@hono/zod-openapi";
import { readContext } from "../api/acting.ts";
import { requireScope } from "../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../api/route-parts/pages.ts";
import { json } from "../api/route-parts/responses.ts";
import { pageQuery, time } from "../api/route-parts/schemas.ts";
import { createRouter } from "../api/router.ts";
import { timeOfId } from "../ids/ids.ts";
import { idInput, text, timeSpan } from "../inputs/values.ts";
import { iso } from "../time/clock.ts";
import { listAudit, partyTypes, type ReadAuditEntry } from "./audit.ts";

const Entry = z
  .strictObject({
    id: z.string().meta({ description: "The id of the entry.", example: "aud_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    at: time.meta({ description: "When it was done." }),
    actor: z
      .strictObject({
        type: z.enum(["key", "member", "operator", "system"]).meta({
          description: "What acted: a `key`, a `member` in the overview, the `operator` or the `system` itself.",
          example: "member",
        }),
        id: z
          .string()
          .nullable()
          .meta({ description: "The id of that key or member; null for others.", example: "mem_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
        name: z.string().nullable().meta({ description: "Its current name.", example: "Ada Lovelace" }),
      })
      .meta({ description: "Who did it." }),
    action: z.string().meta({ description: "What was done.", example: "key.updated" }),
    target: z
      .strictObject({
        type: z.string().meta({ description: "The kind of resource.", example: "key" }),
        id: z.string().meta({ description: "Its id.", example: "key_4fPq2rT8vX0zB6dH" }),
        name: z.string().nullable().meta({ description: "Its name at that time.", example: "Continuous integration" }),
      })
      .meta({ description: "The changed resource." }),
    ip: z.string().nullable().meta({ description: "The address that it came from, where that is known.", example: "203.0.113.7" }),
    country: z.string().nullable().meta({ description: "The country of that address, ISO 3166-1, where that is known.", example: "GB" }),
    changes: z.array(z.string()).meta({ description: "The names of what changed, never what they hold.", example: ["hourly_limit"] }),
  })
  .openapi("AuditEntry", { description: "Who changed what, when and from where." });

const entryJson = (entry: ReadAuditEntry): z.infer<typeof Entry> => ({
  id: entry.id,
  at: iso(timeOfId(entry.id)),
  actor: { type: entry.actorType, id: entry.actorId, name: entry.actorName },
  action: entry.action,
  target: { type: entry.targetType, id: entry.targetId, name: entry.targetName },
  ip: entry.ip,
  country: entry.country,
  changes: entry.changes,
});

export const routes = createRouter();

const list = createRoute({
  method: "get",
  path: "/audit",
  operationId: "listAudit",
  summary: "List who changed what",
  description: "Every change of keys, webhooks, people and sessions, newest first. Kept for 400 days.",
  tags: ["Audit"],
  ...requireScope("audit:read"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      action: text(1, 64).optional().meta({ description: "Only this action.", example: "key.created" }),
      actor: idInput
        .optional()
        .meta({ description: `Only by this key or member, by its id, or by a type: ${partyTypes.join(", ")}.`, example: "member" }),
      target: idInput.optional().meta({ description: "Only on what has this id.", example: "key_4fPq2rT8vX0zB6dH" }),
      ...timeSpan,
    }),
  },
  responses: { 200: json(pageOf(Entry, "AuditPage"), "A page of the audit log.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, ...filter } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, next } = await listAudit(readContext(c), { filter, after, limit });
  return respondPage(c, rows.map(entryJson), next);
});
