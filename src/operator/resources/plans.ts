import { z } from "@hono/zod-openapi";
import { type Plan, type Progress, plansWithProgress, progressOf, readPlan } from "../../accounts/plan.ts";
import { retentionDays } from "../../activity/retention.ts";
import { fixedPeriods, inPeriodOrder, periods } from "../../admission/window.ts";
import { connect } from "../../db/client.ts";
import { omitUndefined } from "../../inputs/omit-undefined.ts";
import { visibleText } from "../../inputs/values.ts";
import { limitsInput, scopesInput } from "../../keys/schemas.ts";
import { applyPlan, changePlan, deletePlan, makePlan } from "../../operations/plans.ts";
import { iso, secondMs } from "../../time/clock.ts";
import { idOf, operating, readBody, readQuery } from "../context.ts";
import { createTeamRouter, documentOperations, teamBase } from "../team-router.ts";

/** The time that one call spends on the accounts of a plan, in milliseconds. The caller repeats the call until no account is left. */
const applyingMs = 10 * secondMs;

const bodyOf = ({ id, name, accountLimits, keyLimits, defaultScopes, retentionDays: days, createdAt, updatedAt }: Plan) => ({
  id,
  name,
  account_limits: accountLimits,
  key_limits: keyLimits,
  default_scopes: defaultScopes,
  retention_days: days,
  created_at: iso(createdAt),
  updated_at: iso(updatedAt),
});

const progressIn = ({ accounts, waiting }: Progress) => ({ accounts, waiting });

const members = {
  name: visibleText(1, 100),
  account_limits: limitsInput(fixedPeriods),
  key_limits: limitsInput(periods),
  default_scopes: scopesInput.nullable(),
  retention_days: z.int().min(retentionDays.min).max(retentionDays.max).nullable(),
};
const NewPlan = z.strictObject({
  ...members,
  account_limits: members.account_limits.default([]),
  key_limits: members.key_limits.default([]),
  default_scopes: members.default_scopes.default(null),
  retention_days: members.retention_days.default(null),
});
const PlanPatch = z.strictObject(members).partial();

const contentOf = <Given extends z.output<typeof PlanPatch>>(given: Given) => ({
  name: given.name,
  accountLimits: given.account_limits && inPeriodOrder(given.account_limits),
  keyLimits: given.key_limits && inPeriodOrder(given.key_limits),
  defaultScopes: given.default_scopes,
  retentionDays: given.retention_days,
});

export const routes = createTeamRouter();

routes.get("/plans", async (c) =>
  c.json({ data: (await plansWithProgress(connect(c.env.DB))).map((plan) => ({ ...bodyOf(plan), ...progressIn(plan) })) }),
);

routes.post("/plans", async (c) => {
  const { name, account_limits, key_limits, default_scopes, retention_days } = await readBody(c, NewPlan);
  const plan = await makePlan(operating(c), {
    name,
    accountLimits: inPeriodOrder(account_limits),
    keyLimits: inPeriodOrder(key_limits),
    defaultScopes: default_scopes,
    retentionDays: retention_days,
  });
  return c.json(bodyOf(plan), 201, { Location: `${teamBase}/plans/${plan.id}` });
});

routes.get("/plans/:id", async (c) => {
  const db = connect(c.env.DB);
  const plan = await readPlan(db, idOf(c));
  return c.json({ ...bodyOf(plan), ...(await progressOf(db, plan)) });
});

/**
 * Changes a plan, and gives its accounts the new terms one after another. `waiting` is the number of accounts that do not have them yet. If `next` is not null,
 * the caller sends the request again with `after`, which changes nothing in the plan itself. A scheduled job also goes on with the accounts that are left.
 */
routes.patch("/plans/:id", async (c) => {
  const { after = "" } = readQuery(c, z.strictObject({ after: z.string().optional() }));
  const patch = omitUndefined(contentOf(await readBody(c, PlanPatch)));
  const plan = after === "" ? await changePlan(operating(c), idOf(c), patch) : await readPlan(connect(c.env.DB), idOf(c));
  const applied = await applyPlan(operating(c), plan.id, { after, endsAt: Date.now() + applyingMs });
  return c.json({ ...bodyOf(plan), ...applied });
});

routes.delete("/plans/:id", async (c) => {
  await deletePlan(operating(c), idOf(c));
  return c.body(null, 204);
});

documentOperations(routes, "Plans", {
  "GET /plans": { operationId: "listPlans", summary: "List plans", description: "Lists the plans, with the number of their accounts." },
  "POST /plans": {
    operationId: "createPlan",
    status: 201,
    summary: "Create a plan",
    description: "Creates a plan: a named set of terms for accounts.",
    body: NewPlan,
  },
  "GET /plans/{id}": {
    operationId: "getPlan",
    summary: "Get a plan",
    description: "Returns a plan, and how many accounts wait for its latest terms.",
  },
  "PATCH /plans/{id}": {
    operationId: "updatePlan",
    summary: "Change a plan",
    description: "Changes a plan, and gives its accounts the new terms. Repeat the call with `after` while `next` is not null.",
    query: z.strictObject({ after: z.string().optional().meta({ description: "The `next` of the call before." }) }),
    body: PlanPatch,
  },
  "DELETE /plans/{id}": { operationId: "deletePlan", summary: "Delete a plan", description: "Deletes a plan that no account has." },
});
