import { createRoute, z } from "@hono/zod-openapi";
import { listAudit, partyTypes, type ReadAuditEntry } from "../../audit/audit.ts";
import { iso } from "../../clock.ts";
import { text, timeInput } from "../../http/inputs/values.ts";
import { timeOfId } from "../../ids.ts";
import { reading } from "../acting.ts";
import { requireScope } from "../route-parts/access.ts";
import { cut, pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { json, problems } from "../route-parts/responses.ts";
import { idInput, pageQuery, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const Entry = z
  .strictObject({
    id: z.string().openapi({ example: "aud_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    at: time,
    actor: z.strictObject({
      type: z.enum(["key", "member", "operator", "system"]),
      id: z.string().nullable(),
      name: z.string().nullable(),
    }),
    action: z.string().openapi({ example: "key.created" }),
    target: z.strictObject({ type: z.string(), id: z.string(), name: z.string().nullable() }),
    ip: z.string().nullable(),
    country: z.string().nullable(),
    changes: z.array(z.string()).openapi({ description: "The names of what changed, never what they hold." }),
  })
  .openapi("AuditEntry");

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

export const audit = createRouter();

const list = createRoute({
  method: "get",
  path: "/audit",
  operationId: "listAudit",
  summary: "List who changed what",
  description: "Changes of keys, webhooks, people and sessions, newest first. Kept for 400 days.",
  tags: ["Audit"],
  ...requireScope("audit:read"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      action: text(1, 64).optional().openapi({ example: "key.created" }),
      actor: idInput.optional().openapi({ description: `The id of a key or member, or a type: ${partyTypes.join(", ")}.` }),
      target: idInput.optional().openapi({ description: "The id of what was acted on." }),
      from: timeInput.optional().openapi({ type: "string", format: "date-time", description: "Inclusive." }),
      to: timeInput.optional().openapi({ type: "string", format: "date-time", description: "Exclusive." }),
    }),
  },
  responses: { 200: json(pageOf(Entry, "AuditPage"), "A page of the audit log.", "Link"), ...problems(400) },
});

audit.openapi(list, async (c) => {
  const { limit, cursor, ...filter } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, last } = cut(await listAudit(reading(c), { filter, after, limit: limit + 1 }), limit);
  return respondPage(c, rows.map(entryJson), last?.id ?? null);
});
