import { type SQL, sql } from "drizzle-orm";
import { apiKeys } from "../keys/tables.ts";

/**
 * Returns the SQL condition for the account's live keys. A key is live if it is neither revoked nor expired. An index lets the query read only live
 * keys. An account has at most 50 live keys but any number of other keys.
 */
export const isLiveKey = (accountId: string, now: number): SQL => {
  const whose = sql`SELECT id FROM api_keys INDEXED BY api_keys_live WHERE account_id = ${accountId} AND state <> 'revoked'`;
  return sql`${apiKeys.id} IN (${whose} AND expires_at IS NULL UNION ALL ${whose} AND expires_at > ${now})`;
};
