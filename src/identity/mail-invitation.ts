import { eq, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { audit } from "../db/areas/audit/tables.ts";
import { idBound } from "../lib/ids.ts";
import { postMessage } from "../lib/net/post-message.ts";
import { dayMs, iso } from "../lib/time/clock.ts";
import { signatureHeaders } from "../webhooks/subscriptions/signature.ts";
import type { Invitation } from "./open-invitations.ts";

/** The maximum number of invitations of an account in 24 hours that are sent by mail. Names of accounts are free text, so mail could carry advertisements. */
export const maxMailed = 50;

/** What an invitation says. `url`: the link, or the page to open. */
export interface InvitationMail {
  invitation: Invitation;
  url: string;
  team: string;
  account: string;
  inviter: string;
}

/** Returns the message as it is posted: ready to be sent as a mail of plain text. */
export const messageOf = ({ invitation: { id, email, role, accountId, expiresAt }, url, team, account, inviter }: InvitationMail) => ({
  to: email,
  subject: `${inviter} invites you to ${account} at ${team}`,
  text: [
    `${inviter} invites you to the account ${account} at ${team}, with the role ${role}.`,
    `Open this link until ${iso(expiresAt).slice(0, 10)}. It works once:`,
    url,
    "If you do not expect this message, do nothing.",
  ].join("\n\n"),
  invitation: { id, role, account_id: accountId, url, expires_at: iso(expiresAt) },
});

/**
 * Posts an invitation to the `mail_url` of the team, signed with `secret` if there is one. Returns the reason why the mail was not sent, or null.
 * The invitation exists in any case.
 */
export async function mailInvitation(
  { db, actor, now }: ReadContext,
  mailUrl: string,
  mail: InvitationMail,
  secret = "",
): Promise<string | null> {
  const [count] = await db
    .select({ made: sql<number>`count(*)` })
    .from(audit)
    .where(
      sql`${eq(audit.accountId, actor.accountId)} AND ${audit.id} >= ${idBound("aud", now - dayMs)} AND ${audit.action} = 'member.invited'`,
    );
  if ((count?.made ?? 0) > maxMailed) return `this account has sent ${maxMailed} invitations in 24 hours`;
  const body = JSON.stringify(messageOf(mail));
  const signed = secret === "" ? {} : signatureHeaders(mail.invitation.id, body, [secret], now);
  try {
    await postMessage(mailUrl, body, signed, "the mail service");
    return null;
  } catch (error) {
    console.error(`the invitation ${mail.invitation.id} was not mailed:`, error instanceof Error ? error.message : error);
    return "the mail service did not accept it";
  }
}
