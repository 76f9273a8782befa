import { type SQL, sql } from "drizzle-orm";

/**
 * Selects the id of a member and the ids of their former memberships. Former memberships with the same email address belong to the same
 * person.
 */
const personOf = (accountId: string, memberId: string): SQL => sql`SELECT ${memberId}
    UNION SELECT id FROM members INDEXED BY former_members_by_email WHERE account_id = ${accountId} AND removed_at IS NOT NULL AND email_key = (SELECT email_key FROM members WHERE id = ${memberId})`;

/** Selects all former memberships of each person who was removed at or after `time`. The person may have rejoined since then. */
const removedSince = (accountId: string, time: number): SQL =>
  sql`SELECT id FROM members WHERE account_id = ${accountId} AND removed_at IS NOT NULL
    AND email_key IN (SELECT email_key FROM members WHERE account_id = ${accountId} AND removed_at >= ${time})`;

/**
 * Returns a `WITH` clause that defines the table `known`. The table contains the id of a member and the ids of all keys whose secrets the
 * member may know. A member may know the secrets of keys that the member created or rotated. A member may also know the secrets of keys
 * that a key in `known` created or rotated.
 */
export const knownTo = (accountId: string, memberId: string): SQL => knownToAny(accountId, personOf(accountId, memberId));

/** Returns the same `WITH` clause as `knownTo`, for all members who were removed at or after `time`. */
export const knownToRemovedSince = (accountId: string, time: number): SQL => knownToAny(accountId, removedSince(accountId, time));

const knownToAny = (accountId: string, members: SQL): SQL =>
  // CROSS JOIN makes SQLite start with `known` and look up the keys that each row created. In the other order, each step would read all
  // keys of the account. 'key.rotated' is a literal, because SQLite cannot use a partial index if the value is a parameter.
  sql`WITH RECURSIVE known (id) AS (
    ${members}
    UNION SELECT made.id FROM known CROSS JOIN api_keys AS made ON made.account_id = ${accountId} AND made.created_by_id = known.id
    UNION SELECT audit.target_id FROM known CROSS JOIN audit ON audit.account_id = ${accountId} AND audit.actor_id = known.id AND action = 'key.rotated'
  )`;
