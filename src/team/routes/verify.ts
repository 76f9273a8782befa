import { createRoute } from "@hono/zod-openapi";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { body, post } from "../../api/route-parts/requests.ts";
import { callerOf } from "../context.ts";
import { createTeamRouter, requireTokenScope, teamJson } from "../team-router.ts";
import { protocolHeader, requireProtocol } from "../verify/protocol.ts";
import { report } from "../verify/reports.ts";
import * as schemas from "../verify/schemas.ts";
import { verify } from "../verify/verify.ts";

export const routes = createTeamRouter();

const tags = ["Verify"];

const verifyRequest = createRoute({
  ...post("/verify", "verify", "Verify a request"),
  description:
    "Decides whether a request that your API has received may run, and counts it. The response is always 200 if the service could look at the request: `allowed` is the decision. Send the same `request_id` again if the answer was lost: within ten seconds, the request counts only once.",
  tags,
  ...requireTokenScope("verify", "handler"),
  ...failsWith("invalid_header"),
  request: { body: body(schemas.VerifyRequest) },
  responses: { 200: teamJson(schemas.VerifyAnswer, "The decision.", ...Object.keys(protocolHeader)) },
});

routes.openapi(verifyRequest, async (c) => {
  requireProtocol(c.req.header("User-Agent") ?? "");
  return respondJson(c, await verify(c.env, callerOf(c, c.get("token").accountIds), c.req.valid("json")), 200, protocolHeader);
});

const reportResponses = createRoute({
  ...post("/reports", "report", "Report responses"),
  description:
    "Adds the responses of your API to the request log. Each report is decided by itself. The first report of a receipt wins: the same report again is 200, a different one 409, and a report after ten minutes 422.",
  tags,
  ...requireTokenScope("verify", "handler"),
  ...failsWith("invalid_header"),
  request: { body: body(schemas.ReportsRequest) },
  responses: { 200: teamJson(schemas.ReportsAnswer, "One result for each report, in order.", ...Object.keys(protocolHeader)) },
});

routes.openapi(reportResponses, async (c) => {
  requireProtocol(c.req.header("User-Agent") ?? "");
  const data = await report(c.env, c.get("token").accountIds, c.req.valid("json").reports);
  return respondJson(c, { data }, 200, protocolHeader);
});
