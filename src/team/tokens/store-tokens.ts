import { and, desc, eq, gt, isNull, or, type SQL, sql } from "drizzle-orm";
import { serviceTokens } from "../../db/areas/tokens/tables.ts";
import type { Db, Statement } from "../../db/client.ts";
import { insertWhere } from "../../db/insert-where.ts";
import type { StoredToken } from "./token.ts";

export type TokenRow = typeof serviceTokens.$inferSelect;

const storedColumns = {
  id: serviceTokens.id,
  name: serviceTokens.name,
  scopes: serviceTokens.scopes,
  accountIds: serviceTokens.accountIds,
  tokenHash: serviceTokens.tokenHash,
  expiresAt: serviceTokens.expiresAt,
  revokedAt: serviceTokens.revokedAt,
};

export async function readToken(db: Db, id: string): Promise<StoredToken | null> {
  const [row] = await db.select(storedColumns).from(serviceTokens).where(eq(serviceTokens.id, id));
  return row ?? null;
}

/** Returns the newest revocations after a time, at most `limit`. */
export const revocationsAfter = (db: Db, after: number, limit: number): Promise<{ id: string; revokedAt: number | null }[]> =>
  db
    .select({ id: serviceTokens.id, revokedAt: serviceTokens.revokedAt })
    .from(serviceTokens)
    .where(gt(serviceTokens.revokedAt, after))
    .orderBy(desc(serviceTokens.revokedAt))
    .limit(limit);

/** A place in the list of tokens. */
export type TokenPosition = Pick<TokenRow, "createdAt" | "id">;

/** Returns tokens that are not revoked, newest first. With `revokedToo`, the list also has the revoked tokens. The list starts after the place `after`. */
export const listTokens = (
  db: Db,
  { revokedToo, after, limit }: { revokedToo: boolean; after?: TokenPosition | undefined; limit: number },
): Promise<TokenRow[]> =>
  db
    .select()
    .from(serviceTokens)
    .where(
      and(
        revokedToo ? undefined : isNull(serviceTokens.revokedAt),
        after && sql`(${serviceTokens.createdAt}, ${serviceTokens.id}) < (${after.createdAt}, ${after.id})`,
      ),
    )
    .orderBy(desc(serviceTokens.createdAt), desc(serviceTokens.id))
    .limit(limit);

/** Returns an SQL condition that is true if there are fewer live tokens than `most`. */
export const hasRoomForToken = (most: number): SQL => sql`(SELECT count(*) FROM service_tokens WHERE revoked_at IS NULL) < ${most}`;

/** Returns statements that store a new token if `when` is true. If the token that creates it is already revoked, the new token is revoked too. */
export const insertToken = (db: Db, row: TokenRow, when: SQL): Statement[] => [
  insertWhere(db, serviceTokens, row, when),
  db
    .update(serviceTokens)
    .set({ revokedAt: sql`(SELECT maker.revoked_at FROM service_tokens AS maker WHERE maker.id = ${row.createdById})` })
    .where(eq(serviceTokens.id, row.id)),
];

/** The tokens that end with a token: itself, and those that it created. A token that another token created can create none. */
const endsWith = (id: string) => or(eq(serviceTokens.id, id), eq(serviceTokens.createdById, id));

/** Returns a token, and the tokens that it created, also those that are revoked. */
export const readTokenAndCreated = (db: Db, id: string): Promise<StoredToken[]> =>
  db.select(storedColumns).from(serviceTokens).where(endsWith(id));

/** Returns a statement that revokes a token and those that it created. A token that was revoked before keeps the time of its revocation. */
export const revokeTokenRows = (db: Db, id: string, now: number): Statement =>
  db
    .update(serviceTokens)
    .set({ revokedAt: now })
    .where(and(endsWith(id), isNull(serviceTokens.revokedAt)));
