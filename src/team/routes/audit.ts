import { createRoute, z } from "@hono/zod-openapi";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { get } from "../../api/route-parts/requests.ts";
import { pageQuery, stringOrNull, time } from "../../api/route-parts/schemas.ts";
import { connect } from "../../db/client.ts";
import { listOperations } from "../../identity/audit/operator-audit.ts";
import { timeOfId } from "../../lib/ids.ts";
import { timeSpan } from "../../lib/inputs/values.ts";
import { iso } from "../../lib/time/clock.ts";
import { createTeamRouter, requireTokenScope, teamJson } from "../team-router.ts";

export const routes = createTeamRouter();

const OperationData = z
  .strictObject({
    id: z.string().meta({ description: "The id of the entry.", example: "opr_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    at: time.meta({ description: "The time of the action." }),
    operator: z.string().meta({ description: "The name of the operator token or service token.", example: "ops" }),
    token_id: stringOrNull.meta({ description: "The id of the service token, or null for an operator token.", example: null }),
    action: z.string().meta({ description: "The action.", example: "account.suspended" }),
    account_id: stringOrNull.meta({ description: "The account, or null.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    target_id: stringOrNull.meta({ description: "What was changed, for example a key, or null.", example: null }),
    details: z.record(z.string(), z.unknown()).meta({ description: "Numbers and names that describe the action.", example: {} }),
  })
  .openapi("Operation", { description: "An action of an operator or of a service token." });

const filter = (description: string, example: string) => z.string().max(200).optional().meta({ description, example });

const listAudit = createRoute({
  ...get("/audit", "listOperations", "List what operators did"),
  description: "Lists the actions of operators and service tokens, newest first.",
  tags: ["Operations"],
  ...requireTokenScope("operate"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      account_id: filter("Only actions on this account.", "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708"),
      operator: filter("Only actions with the operator token or the service token of this name.", "ops"),
      action: filter("Only this action, or all actions that begin with this word and a dot.", "account"),
      target_id: filter("Only actions on this key, plan or token.", "key_2wVY7cPq9sTdKfR4"),
      ...timeSpan,
    }),
  },
  responses: { 200: teamJson(pageOf(OperationData, "OperationPage"), "A page of actions.", "Link") },
});

routes.openapi(listAudit, async (c) => {
  const { limit, cursor, account_id: accountId, target_id: targetId, ...filters } = c.req.valid("query");
  const filtered = { ...filters, accountId, targetId };
  const { rows, next } = await listOperations(connect(c.env.DB), filtered, positionAt(c, cursor, z.string()), limit);
  const data = rows.map(({ id, operator, tokenId, action, accountId, targetId, details }) => ({
    id,
    at: iso(timeOfId(id)),
    operator,
    token_id: tokenId,
    action,
    account_id: accountId,
    target_id: targetId,
    details,
  }));
  return respondPage(c, data, next);
});
