import { createRoute, z } from "@hono/zod-openapi";
import { etagOfShown, preconditionOf, respondOne } from "../../api/conditional.ts";
import { respondEmpty, respondJson } from "../../api/respond.ts";
import { failsWith } from "../../api/route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../../api/route-parts/pages.ts";
import { body, del, get, mergePatch, patch, post, withConditions, withIdempotencyKey } from "../../api/route-parts/requests.ts";
import { idParam, intOrNull, pageQuery, stringOrNull, time } from "../../api/route-parts/schemas.ts";
import { fixedPeriods, inPeriodOrder, periods } from "../../budget/limits.ts";
import { type Plan, type Progress, plansWithProgress, progressOf, readPlan } from "../../budget/plan.ts";
import { connect } from "../../db/client.ts";
import { pageFrom } from "../../db/page.ts";
import { limitsInput, scopesInput, scopesPatch } from "../../keys/schemas.ts";
import { omitUndefined } from "../../lib/inputs/omit-undefined.ts";
import { visibleText } from "../../lib/inputs/values.ts";
import { iso, secondMs } from "../../lib/time/clock.ts";
import { applyPlan, changePlan, deletePlan, makePlan, type PlanContent } from "../../lifecycle/plans.ts";
import { operatorContext } from "../context.ts";
import { runTeamPost } from "../idempotency.ts";
import { createTeamRouter, requireTokenScope, teamBase, teamEmpty, teamJson, teamNotModified, teamPostJson } from "../team-router.ts";
import { retentionDaysInput } from "./account-schemas.ts";

/** The time that one call spends on the accounts of a plan, in milliseconds. The caller repeats the call until no account is left. */
const applyingMs = 10 * secondMs;

const limitsData = z.array(z.strictObject({ per: z.string(), limit: z.int() }));
const PlanData = z
  .strictObject({
    id: z.string().meta({ description: "The id of the plan.", example: "plan_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    name: z.string().meta({ description: "The name of the plan.", example: "Pro" }),
    account_limits: limitsData.meta({
      description: "The limits that all keys of an account share.",
      example: [{ per: "month", limit: 100000 }],
    }),
    key_limits: limitsData.meta({ description: "The highest limits of a key.", example: [{ per: "hour", limit: 5000 }] }),
    default_scopes: z
      .array(z.string())
      .nullable()
      .meta({ description: "The scopes of a new key, or null for the default.", example: null }),
    retention_days: intOrNull.meta({ description: "The retention of the request log in days, or null for the default.", example: 31 }),
    created_at: time.meta({ description: "The time when the plan was created." }),
    updated_at: time.meta({ description: "The time when the plan was last changed." }),
    accounts: z.int().meta({ description: "The number of accounts that have the plan.", example: 12 }),
    waiting: z.int().meta({ description: "The number of these accounts that do not have its latest terms yet.", example: 0 }),
  })
  .openapi("Plan", { description: "A named set of terms for accounts." });
const ChangedPlan = z.strictObject({
  ...PlanData.shape,
  next: stringOrNull.meta({ description: "The `after` of the next call, or null if no account is left.", example: null }),
});

const bodyOf = (
  { id, name, accountLimits, keyLimits, defaultScopes, retentionDays: days, createdAt, updatedAt }: Plan,
  { accounts, waiting }: Progress,
): z.infer<typeof PlanData> => ({
  id,
  name,
  account_limits: accountLimits,
  key_limits: keyLimits,
  default_scopes: defaultScopes,
  retention_days: days,
  created_at: iso(createdAt),
  updated_at: iso(updatedAt),
  accounts,
  waiting,
});

/** Returns the ETag of a plan. The number of accounts can change without a write to the row of the plan. */
const etagOf = (plan: Plan, body: object) => etagOfShown(String(plan.version), body);

const members = {
  name: visibleText(1, 100).meta({ description: "The name of the plan.", example: "Pro" }),
  account_limits: limitsInput(fixedPeriods),
  key_limits: limitsInput(periods),
  default_scopes: scopesInput.nullable(),
  retention_days: retentionDaysInput.meta({
    description: "The retention of the request log in days, or null for the default.",
    example: 31,
  }),
};
const NewPlan = z
  .strictObject({
    ...members,
    account_limits: members.account_limits.default([]),
    key_limits: members.key_limits.default([]),
    default_scopes: members.default_scopes.default(null),
    retention_days: members.retention_days.default(null),
  })
  .openapi("NewPlan", { description: "A new plan." });
const PlanPatch = z
  .strictObject({ ...members, default_scopes: scopesPatch.nullable() })
  .partial()
  .openapi("PlanPatch", { description: "Changes of a plan." });

const contentOf = (given: z.output<typeof PlanPatch>) => ({
  name: given.name,
  accountLimits: given.account_limits && inPeriodOrder(given.account_limits),
  keyLimits: given.key_limits && inPeriodOrder(given.key_limits),
  defaultScopes: given.default_scopes,
  retentionDays: given.retention_days,
});

export const routes = createTeamRouter();

/** The shared parts of the routes in this file. */
const operation = { tags: ["Plans"], ...requireTokenScope("operate") };
const planPath = idParam("plan_019a1b2c3d4e7f8091a2b3c4d5e6f708", "The id of the plan.");

const list = createRoute({
  ...get("/plans", "listPlans", "List plans"),
  description: "Lists the plans, oldest first, with the number of their accounts.",
  ...operation,
  request: { query: z.strictObject(pageQuery) },
  responses: { 200: teamJson(pageOf(PlanData, "PlanPage"), "A page of plans.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, next } = pageFrom(await plansWithProgress(connect(c.env.DB), { after, limit: limit + 1 }), limit, ({ id }) => id);
  return respondPage(
    c,
    rows.map((plan) => bodyOf(plan, plan)),
    next,
  );
});

const create = createRoute({
  ...post("/plans", "createPlan", "Create a plan"),
  description: "Creates a plan: a named set of terms for accounts.",
  ...operation,
  ...withIdempotencyKey,
  ...failsWith("conflict"),
  request: { body: body(NewPlan) },
  responses: { 201: teamPostJson(PlanData, "The new plan.", "ETag", "Location") },
});

routes.openapi(create, async (c) => {
  // A new plan has all members.
  const content = contentOf(c.req.valid("json")) as PlanContent;
  return runTeamPost(
    c,
    (context) => makePlan(context, content),
    (plan) => {
      const made = bodyOf(plan, { accounts: 0, waiting: 0 });
      return { status: 201, body: made, headers: { Location: `${teamBase}/plans/${plan.id}`, ETag: etagOf(plan, made) } };
    },
  );
});

const read = createRoute({
  ...get("/plans/{id}", "getPlan", "Get a plan"),
  description: "Returns a plan, and how many accounts wait for its latest terms.",
  ...operation,
  ...withConditions,
  request: { params: planPath },
  responses: { 200: teamJson(PlanData, "The plan.", "ETag"), ...teamNotModified },
});

routes.openapi(read, async (c) => {
  const db = connect(c.env.DB);
  const plan = await readPlan(db, c.req.valid("param").id);
  const shown = bodyOf(plan, await progressOf(db, plan));
  return respondOne(c, shown, etagOf(plan, shown));
});

const change = createRoute({
  ...patch("/plans/{id}", "updatePlan", "Change a plan"),
  description:
    "Changes a plan, and gives its accounts the new terms one after another. While `next` is not null, send the request again with `after`, which does not change the plan again and ignores `If-Match`. A scheduled job also goes on with the accounts that are left.",
  ...operation,
  ...withConditions,
  ...failsWith("conflict"),
  request: {
    params: planPath,
    query: z.strictObject({ after: z.string().optional().meta({ description: "The `next` of the call before." }) }),
    body: mergePatch(PlanPatch),
  },
  responses: { 200: teamJson(ChangedPlan, "The plan after the change.", "ETag") },
});

routes.openapi(change, async (c) => {
  const { id } = c.req.valid("param");
  const { after = "" } = c.req.valid("query");
  const patch = omitUndefined(contentOf(c.req.valid("json")));
  const plan = after === "" ? await changePlan(operatorContext(c), id, patch, preconditionOf(c)) : await readPlan(connect(c.env.DB), id);
  const { next, ...progress } = await applyPlan(operatorContext(c), plan.id, { after, endsAt: Date.now() + applyingMs });
  const shown = bodyOf(plan, progress);
  return respondJson(c, { ...shown, next }, 200, { ETag: etagOf(plan, shown) });
});

const remove = createRoute({
  ...del("/plans/{id}", "deletePlan", "Delete a plan"),
  description: "Deletes a plan that no account has.",
  ...operation,
  ...withConditions,
  ...failsWith("conflict"),
  request: { params: planPath },
  responses: { 204: teamEmpty("The plan is deleted.") },
});

routes.openapi(remove, async (c) => {
  await deletePlan(operatorContext(c), c.req.valid("param").id, preconditionOf(c));
  return respondEmpty(c, 204);
});
