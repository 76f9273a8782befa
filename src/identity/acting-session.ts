import { sql } from "drizzle-orm";
import { Failure } from "../errors.ts";
import type { Authority } from "../events/commit.ts";
import type { SignedIn } from "./sessions.ts";

/** The authority of a member by their session: it is there, and the member has the role that was looked at. */
export const actingSession = ({ session, member }: SignedIn): Authority => ({
  holds: () => {
    const isMember = sql`SELECT 1 FROM members WHERE id = ${member.id} AND role = ${member.role} AND removed_at IS NULL`;
    return session
      ? sql`EXISTS (${isMember} AND EXISTS (SELECT 1 FROM sessions WHERE token_hash = ${session.tokenHash}))`
      : sql`EXISTS (${isMember})`;
  },
  refusal: async () =>
    new Failure("forbidden", "Your session has ended, or your role was changed, while this was on its way. Nothing was changed."),
});
