import { type DataLocation, objectNamed } from "../db/region.ts";
import type { AccountBudget } from "./account-budget.ts";

/** The budgets of all accounts, by the id of the account. */
export type Budgets = Pick<DurableObjectNamespace<AccountBudget>, "getByName">;

export const budgetsOf = (env: DataLocation & { ACCOUNT_BUDGET: DurableObjectNamespace<AccountBudget> }): Budgets => ({
  getByName: (accountId) => objectNamed(env.ACCOUNT_BUDGET, accountId, env),
});
