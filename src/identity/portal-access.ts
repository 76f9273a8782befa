import { and, eq, type SQL, sql } from "drizzle-orm";
import { members, portalLinks, sessions } from "../db/areas/identity/tables.ts";
import { type Db, raw, type Statement } from "../db/client.ts";

/**
 * Returns the statements that end the sessions of an account's portal links, and the links themselves. With `externalId`, they end those of one
 * member. They change nothing unless `when` is true.
 */
export function endPortalAccess(
  db: Db,
  accountId: string,
  { externalId, when = sql`true` }: { externalId?: string | undefined; when?: SQL } = {},
): Statement[] {
  const isOf = and(eq(members.accountId, accountId), externalId === undefined ? undefined : eq(members.externalId, externalId));
  const isLink = and(eq(portalLinks.accountId, accountId), externalId === undefined ? undefined : eq(portalLinks.externalId, externalId));
  return [
    db
      .delete(sessions)
      .where(
        sql`${sessions.returnUrl} IS NOT NULL AND ${sessions.memberId} IN (SELECT ${members.id} FROM ${members} WHERE ${isOf}) AND ${when}`,
      ),
    db.delete(portalLinks).where(and(isLink, when)),
  ];
}

/** Returns the statement that ends the sessions of portal links that a service token created, or a token that it created. */
export const endSessionsOfToken = (db: Db, tokenId: string): Statement =>
  raw(
    db,
    sql`DELETE FROM sessions WHERE portal_token_id IN (SELECT id FROM service_tokens WHERE id = ${tokenId} OR created_by_id = ${tokenId})`,
  );
