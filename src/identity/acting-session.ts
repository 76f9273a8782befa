import { eq, sql } from "drizzle-orm";
import { isNotSuspended, suspended } from "../accounts/suspension.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import type { Db } from "../db/client.ts";
import { Failure } from "../lib/errors/failure.ts";
import type { Authority } from "../outbox/outbox.ts";
import type { SignedIn } from "./sessions.ts";

/**
 * Returns the conditions that a signed-in member must meet to change data. The session must still exist, the role of the member must be
 * unchanged, and the account must not be suspended. If members sign in through Cloudflare Access, there is no session to check.
 */
export const authorityOfSession = (db: Db, { session, member }: SignedIn): Authority => ({
  holds: () => {
    const isMember = sql`SELECT 1 FROM members WHERE id = ${member.id} AND role = ${member.role} AND removed_at IS NULL`;
    const mayAct = session
      ? sql`EXISTS (${isMember} AND EXISTS (SELECT 1 FROM sessions WHERE token_hash = ${session.tokenHash}))`
      : sql`EXISTS (${isMember})`;
    return sql`${mayAct} AND ${isNotSuspended(member.accountId)}`;
  },
  denial: async () => {
    const [account] = await db.select({ suspendedAt: accounts.suspendedAt }).from(accounts).where(eq(accounts.id, member.accountId));
    if (account && account.suspendedAt !== null) return suspended();
    return new Failure(
      "forbidden",
      "Your session has ended, or your role was changed, before this request was finished. Nothing was changed.",
    );
  },
});
