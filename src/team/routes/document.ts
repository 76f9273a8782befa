import { createRoute, z } from "@hono/zod-openapi";
import { readDocument } from "../../api/openapi/document.ts";
import { respondBytes } from "../../api/respond.ts";
import { get } from "../../api/route-parts/requests.ts";
import { urlOf } from "../../http/request-url.ts";
import { createTeamRouter, requireTokenScope, teamJson } from "../team-router.ts";

export const routes = createTeamRouter();

const read = createRoute({
  ...get("/openapi.json", "getTeamOpenApi", "Get this document"),
  description: "Returns the OpenAPI document of the team API. Every service token may read it.",
  tags: ["Service tokens"],
  ...requireTokenScope(null, "handler"),
  responses: { 200: teamJson(z.looseObject({ openapi: z.literal("3.1.0") }), "The OpenAPI 3.1.0 document.") },
});

routes.openapi(read, async (c) => {
  const document = await readDocument(c.env, "/api/team/openapi.json", urlOf(c));
  return respondBytes<{ openapi: "3.1.0" }>(c, new Uint8Array(await document.arrayBuffer()), { "Content-Type": "application/json" });
});
