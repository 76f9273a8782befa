import { type SQL, sql } from "drizzle-orm";
import { apiKeys } from "../keys/tables.ts";

/**
 * The condition for keys of the account that are neither revoked nor expired. It reads these alone, by an index: an account has 50 of them at most,
 * and any number of others.
 */
export const isLive = (accountId: string, now: number): SQL => {
  const whose = sql`SELECT id FROM api_keys INDEXED BY api_keys_live WHERE account_id = ${accountId} AND state <> 'revoked'`;
  return sql`${apiKeys.id} IN (${whose} AND expires_at IS NULL UNION ALL ${whose} AND expires_at > ${now})`;
};
