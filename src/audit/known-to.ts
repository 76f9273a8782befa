import { type SQL, sql } from "drizzle-orm";

/**
 * Returns a `WITH` clause for a table `known`: the ids of a member and of the keys whose secret the member may have. These are the keys that the member
 * made or rotated, the keys that those keys made or rotated, and so on. A member who was removed and invited again to the same address is one person.
 */
export const knownTo = (accountId: string, memberId: string): SQL =>
  // CROSS JOIN: SQLite then goes from what is known to what it made. In the other order each step reads all keys of the account.
  // A literal, not a parameter: SQLite uses the partial index only for a literal.
  sql`WITH RECURSIVE known (id) AS (
    SELECT ${memberId}
    UNION SELECT id FROM members INDEXED BY former_members_by_email WHERE account_id = ${accountId} AND removed_at IS NOT NULL AND email_key = (SELECT email_key FROM members WHERE id = ${memberId})
    UNION SELECT made.id FROM known CROSS JOIN api_keys AS made ON made.account_id = ${accountId} AND made.created_by_id = known.id
    UNION SELECT audit.target_id FROM known CROSS JOIN audit ON audit.account_id = ${accountId} AND audit.actor_id = known.id AND action = 'key.rotated'
  )`;
