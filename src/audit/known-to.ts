import { type SQL, sql } from "drizzle-orm";

/** Selects a member and their former memberships. A person who was removed and invited again to the same address counts as one person. */
const personOf = (accountId: string, memberId: string): SQL => sql`SELECT ${memberId}
    UNION SELECT id FROM members INDEXED BY former_members_by_email WHERE account_id = ${accountId} AND removed_at IS NOT NULL AND email_key = (SELECT email_key FROM members WHERE id = ${memberId})`;

/** Selects all former memberships of every person who was removed at or after `time`, even if the person has rejoined. */
const removedSince = (accountId: string, time: number): SQL =>
  sql`SELECT id FROM members WHERE account_id = ${accountId} AND removed_at IS NOT NULL
    AND email_key IN (SELECT email_key FROM members WHERE account_id = ${accountId} AND removed_at >= ${time})`;

/**
 * Returns a `WITH` clause for a table `known`. The table contains the id of a member and the ids of keys whose secrets the member may have. The
 * member may have the secrets of keys that they created or rotated. The member may also have the secrets of keys that those keys created or rotated,
 * and so on.
 */
export const knownTo = (accountId: string, memberId: string): SQL => knownToAny(accountId, personOf(accountId, memberId));

/** Returns the same `WITH` clause as `knownTo`, for all members who were removed at or after `time`. */
export const knownToRemovedSince = (accountId: string, time: number): SQL => knownToAny(accountId, removedSince(accountId, time));

const knownToAny = (accountId: string, members: SQL): SQL =>
  // CROSS JOIN makes SQLite start with `known` and look up the keys that each row created. In the other order, each step would read all keys of the
  // account.
  // 'key.rotated' is a literal, because SQLite does not use a partial index for a parameter.
  sql`WITH RECURSIVE known (id) AS (
    ${members}
    UNION SELECT made.id FROM known CROSS JOIN api_keys AS made ON made.account_id = ${accountId} AND made.created_by_id = known.id
    UNION SELECT audit.target_id FROM known CROSS JOIN audit ON audit.account_id = ${accountId} AND audit.actor_id = known.id AND action = 'key.rotated'
  )`;
