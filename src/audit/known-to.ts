import { type SQL, sql } from "drizzle-orm";

/** A member, with the memberships that they had before. Somebody who was removed and invited again to the same address is one person. */
const personOf = (accountId: string, memberId: string): SQL => sql`SELECT ${memberId}
    UNION SELECT id FROM members INDEXED BY former_members_by_email WHERE account_id = ${accountId} AND removed_at IS NOT NULL AND email_key = (SELECT email_key FROM members WHERE id = ${memberId})`;

/** Those who were removed at a time or later, whether or not they are back, with the memberships that they had before. */
const removedSince = (accountId: string, time: number): SQL =>
  sql`SELECT id FROM members WHERE account_id = ${accountId} AND removed_at IS NOT NULL
    AND email_key IN (SELECT email_key FROM members WHERE account_id = ${accountId} AND removed_at >= ${time})`;

/**
 * Returns a `WITH` clause for a table `known`: the ids of a member and of the keys whose secret the member may have. These are the keys that the member
 * made or rotated, the keys that those keys made or rotated, and so on.
 */
export const knownTo = (accountId: string, memberId: string): SQL => knownToAny(accountId, personOf(accountId, memberId));

/** The same for all members that were removed at a time or later. */
export const knownToRemovedSince = (accountId: string, time: number): SQL => knownToAny(accountId, removedSince(accountId, time));

const knownToAny = (accountId: string, members: SQL): SQL =>
  // CROSS JOIN: SQLite then goes from what is known to what it made. In the other order each step reads all keys of the account.
  // A literal, not a parameter: SQLite uses the partial index only for a literal.
  sql`WITH RECURSIVE known (id) AS (
    ${members}
    UNION SELECT made.id FROM known CROSS JOIN api_keys AS made ON made.account_id = ${accountId} AND made.created_by_id = known.id
    UNION SELECT audit.target_id FROM known CROSS JOIN audit ON audit.account_id = ${accountId} AND audit.actor_id = known.id AND action = 'key.rotated'
  )`;
