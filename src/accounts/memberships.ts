import { type SQL, sql } from "drizzle-orm";

/**
 * Selects the id of a member and the ids of their former memberships. Former memberships with the same email address belong to the same
 * person.
 */
export const memberships = (accountId: string, memberId: string): SQL => sql`SELECT ${memberId}
    UNION SELECT id FROM members INDEXED BY former_members_by_email WHERE account_id = ${accountId} AND removed_at IS NOT NULL AND email_key = (SELECT email_key FROM members WHERE id = ${memberId})`;
