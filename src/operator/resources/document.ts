import { createRoute, z } from "@hono/zod-openapi";
import { respondJson } from "../../api/respond.ts";
import document from "../openapi.json" with { type: "json" };
import { createTeamRouter, teamJson, teamScheme } from "../team-router.ts";

export const routes = createTeamRouter();

const read = createRoute({
  method: "get",
  path: "/openapi.json",
  operationId: "getTeamOpenApi",
  summary: "Get this document",
  description: "Returns the OpenAPI document of the team API. Every service token may read it.",
  tags: ["Service tokens"],
  security: [{ [teamScheme]: [] as string[] }],
  responses: { 200: teamJson(z.looseObject({ openapi: z.literal("3.1.0") }), "The OpenAPI 3.1.0 document.") },
});

routes.openapi(read, (c) => respondJson(c, document as unknown as { openapi: "3.1.0" }, 200));
