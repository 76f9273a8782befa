import { createRoute } from "@hono/zod-openapi";
import { respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { body, post } from "../../api/route-parts/requests.ts";
import { callerOf, type TeamContext } from "../context.ts";
import { createTeamRouter, requireTokenScope, teamJson } from "../team-router.ts";
import { ReportsAnswer, VerifyAnswer } from "../verify/answers.ts";
import { type Holder, storeEntries } from "../verify/entries.ts";
import { EntriesRequest, LeasesAnswer, LeasesRequest } from "../verify/lease-schemas.ts";
import { lease } from "../verify/leases.ts";
import { protocolHeader, requireProtocol } from "../verify/protocol.ts";
import { report } from "../verify/reports.ts";
import { ReportsRequest, VerifyRequest } from "../verify/schemas.ts";
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
  request: { body: body(VerifyRequest) },
  responses: { 200: teamJson(VerifyAnswer, "The decision.", ...Object.keys(protocolHeader)) },
});

routes.openapi(verifyRequest, async (c) => {
  requireProtocol(c.req.header("User-Agent") ?? "");
  return respondJson(c, await verify(c.env, callerOf(c, c.get("token").accountIds), c.req.valid("json")), 200, protocolHeader);
});

const leaseKeys = createRoute({
  ...post("/leases", "lease", "Lease keys"),
  description:
    "Decides about requests, and gives your process leases: with a lease, it decides about the next requests of a key by itself, for two seconds. The units of a lease are counted already. Give back what is left after its end. A key that cannot be answered in time (a renewal: 300 ms) is 503 with `retry`.",
  tags,
  ...requireTokenScope("verify", "handler"),
  ...failsWith("invalid_header"),
  request: { body: body(LeasesRequest) },
  responses: { 200: teamJson(LeasesAnswer, "One answer for each key, in order.", ...Object.keys(protocolHeader)) },
});

routes.openapi(leaseKeys, async (c) => {
  requireProtocol(c.req.header("User-Agent") ?? "");
  const holder = holderOf(c);
  return respondJson(c, await lease(c.env, callerOf(c, holder.accountIds), holder, c.req.valid("json").keys), 200, protocolHeader);
});

const storeEntriesOfHolder = createRoute({
  ...post("/entries", "storeEntries", "Store entries"),
  description:
    "Adds requests that your process decided by leases to the request log. Each entry is decided by itself and stored once. An entry is 422 if its lease was not given to your token, or has no units left.",
  tags,
  ...requireTokenScope("verify", "handler"),
  ...failsWith("invalid_header"),
  request: { body: body(EntriesRequest) },
  responses: { 200: teamJson(ReportsAnswer, "One result for each entry, in order.", ...Object.keys(protocolHeader)) },
});

routes.openapi(storeEntriesOfHolder, async (c) => {
  requireProtocol(c.req.header("User-Agent") ?? "");
  const data = await storeEntries(c.env, holderOf(c), c.req.valid("json").entries);
  return respondJson(c, { data }, 200, protocolHeader);
});

/** Returns the process that holds leases, by its token. */
const holderOf = (c: TeamContext): Holder => {
  const { id, accountIds } = c.get("token");
  return { issuer: id ?? c.get("operator"), accountIds };
};

const reportResponses = createRoute({
  ...post("/reports", "report", "Report responses"),
  description:
    "Adds the responses of your API to the request log. Each report is decided by itself. The first report of a receipt wins: the same report again is 200, a different one 409, and a report after ten minutes 422.",
  tags,
  ...requireTokenScope("verify", "handler"),
  ...failsWith("invalid_header"),
  request: { body: body(ReportsRequest) },
  responses: { 200: teamJson(ReportsAnswer, "One result for each report, in order.", ...Object.keys(protocolHeader)) },
});

routes.openapi(reportResponses, async (c) => {
  requireProtocol(c.req.header("User-Agent") ?? "");
  const data = await report(c.env, c.get("token").accountIds, c.req.valid("json").reports);
  return respondJson(c, { data }, 200, protocolHeader);
});
