import { createRoute, z } from "@hono/zod-openapi";
import { timeOfId } from "../../lib/ids.ts";
import { idInput, text, timeSpan } from "../../lib/inputs/values.ts";
import { iso } from "../../lib/time/clock.ts";
import { listAudit, partyTypes, type ReadAuditEntry } from "../../outbox/audit.ts";
import { contextOf } from "../operation-contexts.ts";
import { requireScope, sharesCpu } from "../route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { get } from "../route-parts/requests.ts";
import { json } from "../route-parts/responses.ts";
import { objectOf, pageQuery, stringOrNull, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const Entry = z
  .strictObject({
    id: z.string().meta({ description: "The id of the audit entry.", example: "aud_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    at: time.meta({ description: "The time of the action." }),
    actor: objectOf("The actor who performed the action.", {
      type: z.enum(["key", "member", "token", "operator", "system"]).meta({
        description:
          "The type of the actor: a `key`, a `member` of the account, a service `token`, the `operator` (the team behind this service), or the `system`.",
        example: "member",
      }),
      id: stringOrNull.meta({
        description: "The id of the key, member or service token. Null for the team behind this service and the system.",
        example: "mem_019a1b2c3d4e7f8091a2b3c4d5e6f708",
      }),
      name: stringOrNull.meta({ description: "The current name of the actor, or null if the name is unknown.", example: "Ada Lovelace" }),
    }),
    action: z.string().meta({ description: "The action that was performed.", example: "key.updated" }),
    target: objectOf("The changed resource.", {
      type: z.string().meta({ description: "The type of the changed resource.", example: "key" }),
      id: z.string().meta({ description: "The id of the changed resource.", example: "key_4fPq2rT8vX0zB6dH" }),
      name: stringOrNull.meta({ description: "The name of the resource at the time of the action.", example: "Continuous integration" }),
    }),
    ip: stringOrNull.meta({
      description: "The IP address that the action came from, or null if the address is unknown.",
      example: "203.0.113.7",
    }),
    country: stringOrNull.meta({
      description: "The country code of the IP address (ISO 3166-1), or null if the country is unknown.",
      example: "GB",
    }),
    changes: z
      .array(z.string())
      .meta({ description: "The names of the changed members, without their values.", example: ["hourly_limit"] }),
  })
  .openapi("AuditEntry", { description: "An entry of the audit log: who changed what, when and from where." });

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
  ...get("/audit", "listAudit", "List audit entries"),
  description: "Lists every change to keys, webhooks, members and sessions, newest first. Audit entries are stored for 400 days.",
  tags: ["Audit"],
  ...requireScope("audit:read"),
  ...sharesCpu,
  request: {
    query: z.strictObject({
      ...pageQuery,
      action: text(1, 64).optional().meta({ description: "Returns only entries with this action.", example: "key.created" }),
      actor: idInput.optional().meta({
        description: `Returns only entries of this actor. The value is the id of a key or member, or one of these types: ${partyTypes.join(", ")}.`,
        example: "member",
      }),
      target: idInput
        .optional()
        .meta({ description: "Returns only entries about the resource with this id.", example: "key_4fPq2rT8vX0zB6dH" }),
      ...timeSpan,
    }),
  },
  responses: { 200: json(pageOf(Entry, "AuditPage"), "A page of the audit log.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, ...filter } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, next } = await listAudit(contextOf(c), { filter, after, limit });
  return respondPage(c, rows.map(entryJson), next);
});
