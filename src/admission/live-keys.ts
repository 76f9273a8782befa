import { type SQL, sql } from "drizzle-orm";
import { apiKeys } from "../db/areas/keys/tables.ts";

/**
 * Returns an SQL condition that is true for the live keys of the account. A key is live if it is neither revoked nor expired. With an
 * index, the query reads only live keys. An account has at most 50 live keys but any number of other keys.
 */
export const isLiveKey = (accountId: string, now: number): SQL => {
  const whose = sql`SELECT id FROM api_keys INDEXED BY api_keys_live WHERE account_id = ${accountId} AND state <> 'revoked'`;
  return sql`${apiKeys.id} IN (${whose} AND expires_at IS NULL UNION ALL ${whose} AND expires_at > ${now})`;
};
