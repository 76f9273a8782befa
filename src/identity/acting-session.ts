import { sql } from "drizzle-orm";
import { Failure } from "../errors.ts";
import type { Authority } from "../events/commit.ts";
import type { SignedIn } from "./sessions.ts";

/** The authority of a member by their session: it is there, and the member has the role that was looked at. */
export const actingSession = ({ session, member }: SignedIn): Authority => ({
  holds: () => sql`EXISTS (SELECT 1 FROM sessions JOIN members ON members.id = sessions.member_id
    WHERE sessions.token_hash = ${session.tokenHash} AND members.role = ${member.role} AND members.removed_at IS NULL)`,
  refusal: async () =>
    new Failure("forbidden", "Your session has ended, or your role was changed, while this was on its way. Nothing was changed."),
});
