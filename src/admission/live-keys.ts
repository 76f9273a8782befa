import { and, eq, gt, inArray, isNull, or } from "drizzle-orm";
import { apiKeys } from "../db/schema-main.ts";

/** The condition for keys of the account that are neither revoked nor expired. */
export const isLive = (accountId: string, now: number) =>
  and(
    eq(apiKeys.accountId, accountId),
    inArray(apiKeys.state, ["active", "disabled"]),
    or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now)),
  );
