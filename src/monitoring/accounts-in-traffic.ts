import { asc, getTableColumns, gt } from "drizzle-orm";
import type { Account } from "../accounts/account.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import type { Db } from "../db/client.ts";

/** What the traffic of an account is compared with. */
export type AccountInTraffic = Pick<Account, "id" | "name" | "suspendedAt" | "storageQuotaBytes" | "logWriter" | "sharedLimits">;

/** The accounts that one statement returns. A row has less than 1 KB. */
const inTrafficAtOnce = 10_000;

/** Returns all accounts, with the columns that the operator's figures need. */
export async function accountsInTraffic(db: Db): Promise<AccountInTraffic[]> {
  const { id, name, suspendedAt, storageQuotaBytes, logWriter, sharedLimits } = getTableColumns(accounts);
  const columns = { id, name, suspendedAt, storageQuotaBytes, logWriter, sharedLimits };
  const all: AccountInTraffic[] = [];
  for (let found = inTrafficAtOnce; found === inTrafficAtOnce; ) {
    const some = await db
      .select(columns)
      .from(accounts)
      .where(gt(id, all.at(-1)?.id ?? ""))
      .orderBy(asc(id))
      .limit(inTrafficAtOnce);
    all.push(...some);
    found = some.length;
  }
  return all;
}
