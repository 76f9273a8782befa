import { type SQL, sql } from "drizzle-orm";

/**
 * A table `known` of a member and the keys of the account whose secret they may have: those that they made or rotated, those that such a key made
 * or rotated, and so on.
 */
export const knownTo = (accountId: string, memberId: string): SQL =>
  // The action as a literal: SQLite takes the partial index for no bound value.
  sql`WITH RECURSIVE known (id) AS (
    SELECT ${memberId}
    UNION SELECT made.id FROM known JOIN api_keys AS made ON made.account_id = ${accountId} AND made.created_by_id = known.id
    UNION SELECT audit.target_id FROM known JOIN audit ON audit.account_id = ${accountId} AND audit.actor_id = known.id AND action = 'key.rotated'
  )`;
