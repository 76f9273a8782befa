import { and, asc, count, eq, exists, getTableColumns, gt, gte, lt, type SQL, sql } from "drizzle-orm";
import type { Account } from "../accounts/account.ts";
import { accounts, limitCeiling, plans } from "../db/areas/accounts/tables.ts";
import type { Db, Statement } from "../db/client.ts";
import { Failure } from "../lib/errors/failure.ts";
import { newId } from "../lib/ids.ts";

export type Plan = typeof plans.$inferSelect;

export const newPlanId = (now: number): string => newId("plan", now);

/** The terms of an account: the columns that its plan or the operator decides. */
export type Terms = Pick<Account, "sharedLimits" | "limitCeiling" | "keyLimits" | "defaultScopes" | "retentionDays">;

/** Returns the terms of an account: those of its plan, each replaced by the account's own, if it has one. */
export function termsOf(plan: Plan | null, own: Account["ownTerms"]): Terms {
  const limitOfPlan = plan?.keyLimits.find(({ per }) => per === "hour")?.limit;
  const ownLimits = own.limits ?? [];
  const limits = (["hour", "day", "month"] as const).flatMap(
    (period) => [...ownLimits, ...(plan?.accountLimits ?? [])].find(({ per }) => per === period) ?? [],
  );
  return {
    sharedLimits: limits,
    limitCeiling: own.limitCeiling ?? limitOfPlan ?? limitCeiling,
    keyLimits: plan?.keyLimits.filter(({ per }) => per !== "hour") ?? [],
    defaultScopes: plan?.defaultScopes ?? null,
    retentionDays: own.retentionDays ?? plan?.retentionDays ?? null,
  };
}

/** Returns a plan. Throws `not_found` if the plan does not exist. */
export async function readPlan(db: Db, id: string): Promise<Plan> {
  const [plan] = await db.select().from(plans).where(eq(plans.id, id));
  if (!plan) throw new Failure("not_found", "There is no such plan.");
  return plan;
}

/** Returns the plan of an account, or null if the account has none. */
export async function planOf(db: Db, { planId }: Pick<Account, "planId">): Promise<Plan | null> {
  if (planId === null) return null;
  const [plan] = await db.select().from(plans).where(eq(plans.id, planId));
  return plan ?? null;
}

export const insertPlan = (db: Db, plan: Plan): Statement => db.insert(plans).values(plan);

const isAsRead = ({ id, version }: Plan) => and(eq(plans.id, id), eq(plans.version, version));

/** Returns a statement that changes a plan, unless it has changed since it was read. The statement returns the plan. */
export const updatePlan = (db: Db, plan: Plan, members: Partial<Omit<Plan, "id">>) =>
  db
    .update(plans)
    .set({ ...members, version: plan.version + 1 })
    .where(isAsRead(plan))
    .returning();

/** Returns an SQL condition that is true if a plan has not changed since it was read. */
export const isPlanAsRead = (db: Db, plan: Plan): SQL => exists(db.select({ id: plans.id }).from(plans).where(isAsRead(plan)));

/**
 * Returns a statement that deletes a plan, unless it has changed since it was read. The statement returns the plan. D1 rejects the statement if an account has
 * the plan.
 */
export const removePlan = (db: Db, plan: Plan) => db.delete(plans).where(isAsRead(plan)).returning({ id: plans.id });

/** Returns a statement that notes that an account has the terms of its plan, unless the account has got another plan. */
export const notePlanVersion = (db: Db, { id, planVersion }: Account, plan: Plan): Statement =>
  db
    .update(accounts)
    .set({ planVersion: plan.version })
    .where(and(eq(accounts.id, id), eq(accounts.planId, plan.id), eq(accounts.planVersion, planVersion)));

/** Returns the first plan whose latest terms an account does not have yet. Plans before the id `from` are left out. Returns null if there is none. */
export async function nextPlanBehind(db: Db, from: string): Promise<Plan | null> {
  const isAnyBehind = exists(
    db
      .select({ id: accounts.id })
      .from(accounts)
      .where(and(eq(accounts.planId, plans.id), lt(accounts.planVersion, plans.version))),
  );
  const [plan] = await db
    .select()
    .from(plans)
    .where(and(gte(plans.id, from), isAnyBehind))
    .orderBy(asc(plans.id))
    .limit(1);
  return plan ?? null;
}

const isBehind = ({ id, version }: Plan) => and(eq(accounts.planId, id), lt(accounts.planVersion, version));

/** How many accounts have a plan, and how many of them do not have its latest terms yet. */
export interface Progress {
  accounts: number;
  waiting: number;
}

export async function progressOf(db: Db, plan: Plan): Promise<Progress> {
  const [all, behind] = await db.batch([
    db.select({ rows: count() }).from(accounts).where(eq(accounts.planId, plan.id)),
    db.select({ rows: count() }).from(accounts).where(isBehind(plan)),
  ]);
  return { accounts: all[0]?.rows ?? 0, waiting: behind[0]?.rows ?? 0 };
}

/** Returns plans with their progress, sorted by id. The list starts after the id `after`. */
export const plansWithProgress = (
  db: Db,
  { after = "", limit }: { after?: string | undefined; limit: number },
): Promise<(Plan & Progress)[]> => {
  const having = (condition: SQL | undefined) =>
    sql<number>`(${db.select({ rows: count() }).from(accounts).where(condition)})`.mapWith(Number);
  const ofPlan = eq(accounts.planId, plans.id);
  return db
    .select({
      ...getTableColumns(plans),
      accounts: having(ofPlan),
      waiting: having(and(ofPlan, lt(accounts.planVersion, plans.version))),
    })
    .from(plans)
    .where(gt(plans.id, after))
    .orderBy(asc(plans.id))
    .limit(limit);
};

/** Returns accounts of a plan that do not have its latest terms yet, sorted by id. The list starts after the id `after`. */
export const accountsBehind = (db: Db, plan: Plan, after: string, limit: number): Promise<Account[]> =>
  db
    .select()
    .from(accounts)
    .where(and(isBehind(plan), gt(accounts.id, after)))
    .orderBy(asc(accounts.id))
    .limit(limit);
