import { and, eq, isNull, type SQL, sql } from "drizzle-orm";
import { type Account, readAccount } from "../accounts/account.ts";
import { operatorOn, tokenOn } from "../accounts/actor.ts";
import { isNotSuspended, suspended } from "../accounts/suspension.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { type Member, members, portalLinks, sessions } from "../db/areas/identity/tables.ts";
import { type Db, raw } from "../db/client.ts";
import { deleteExpiredLinks } from "../db/delete-in-chunks.ts";
import { isDuplicate } from "../db/failures.ts";
import { insertWhere } from "../db/insert-where.ts";
import { retry, retryOnConflict, wrote } from "../db/optimistic-locking.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import { newId } from "../lib/ids.ts";
import { hourMs, secondMs } from "../lib/time/clock.ts";
import { auditEntry } from "../outbox/audit.ts";
import { commitChange, type Outbox } from "../outbox/outbox.ts";
import { takesOwn } from "./audit/own-sign-in.ts";
import { memberJoined } from "./events.ts";
import { hasRoomForMember, noRoomForMember } from "./invitations.ts";
import { memberActor } from "./member.ts";
import { endOldest, maxPortalSessionMs, newSession, type SessionOrigin } from "./sessions.ts";
import { newToken } from "./tokens.ts";

// A portal link lets a person of a customer in from the team's own app, without a passkey. The team says who the person is.

export type PortalLink = typeof portalLinks.$inferSelect;
export type NewPortalLink = Pick<
  PortalLink,
  "accountId" | "externalId" | "email" | "name" | "role" | "returnUrl" | "page" | "isFramed" | "expiresAt"
>;

/** The maximum number of links that are neither used nor expired: of an account, and of one person. */
export const maxOpenLinks = { ofAccount: 1000, ofPerson: 20 } as const;
/** The time for which a link is kept after its end, so that its page can say what happened, in milliseconds. */
const keptMs = hourMs;
/** A claim that the same browser sends again within this time is the second press of a button, in milliseconds. */
const samePressMs = 10 * secondMs;

/**
 * Returns a new link, its token, the condition under which it can be stored, and the statement that stores it. `tokenId`: the id of the service
 * token that creates the link.
 */
export function newPortalLink(
  { db, now, tokenId = null }: { db: Db; now: number; tokenId?: string | null | undefined },
  given: NewPortalLink,
) {
  const { token, tokenHash } = newToken();
  const { accountId, externalId } = given;
  const link: PortalLink = { ...given, tokenHash, id: newId("plk", now), createdBy: tokenId, claimedAt: null, createdAt: now };
  const open = (of: SQL) =>
    sql`(SELECT count(*) FROM portal_links WHERE account_id = ${accountId} AND claimed_at IS NULL AND expires_at > ${now} AND ${of})`;
  const hasRoom = sql`${open(sql`true`)} < ${maxOpenLinks.ofAccount} AND ${open(sql`external_id = ${externalId}`)} < ${maxOpenLinks.ofPerson}`;
  const when = sql`(${hasRoom} AND ${isNotSuspended(accountId)})`;
  return { token, link, when, stored: insertWhere(db, portalLinks, link, when) };
}

/** Deletes up to `atMost` links of the given accounts that ended an hour ago. Returns the number of deleted links. */
export const deleteOldLinks = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteExpiredLinks(db, "portal_links", accountIds, { before: now - keptMs, atMost });

/** Returns an SQL condition that is true if a link can be claimed. A link ends with the service token that created it, by revocation or by expiry. */
const isOpen = (now: number): SQL =>
  sql`(portal_links.claimed_at IS NULL AND portal_links.expires_at > ${now} AND ${isNotSuspended(sql`portal_links.account_id`)}
    AND (portal_links.created_by IS NULL OR EXISTS (SELECT 1 FROM service_tokens WHERE id = portal_links.created_by AND revoked_at IS NULL AND coalesce(service_tokens.expires_at, ${now} + 1) > ${now})))`;

/** A link as its page shows it. */
export interface ReadLink {
  link: PortalLink;
  account: Account;
  isOpen: boolean;
}

/** Returns the link that belongs to a token. Returns null if there is none: it never existed, or it ended more than an hour ago. */
export async function readPortalLink(db: Db, token: string, now: number): Promise<ReadLink | null> {
  if (!/^[\w-]{43}$/.test(token)) return null;
  const [found] = await db
    .select({ link: portalLinks, account: accounts, isOpen: sql<number>`${isOpen(now)}` })
    .from(portalLinks)
    .innerJoin(accounts, eq(accounts.id, portalLinks.accountId))
    .where(eq(portalLinks.tokenHash, hashOf(token)));
  return found ? { ...found, isOpen: found.isOpen === 1 } : null;
}

/** Returns the failure for a link that cannot be claimed. */
export const endedPortalLink = () =>
  new Failure("conflict", "This link was already used, or has expired. Go back, and open the page from there again.");

/**
 * Claims a link, in a tab or in a frame (`isFramed`): makes its member, or gives the member the role, name and address of the link, and opens a
 * session. Returns the token for the cookie of the session. Of two claims, one succeeds. Throws `conflict` if the link has ended, and
 * `limit_reached` if the account has 1,000 members.
 */
export async function claimPortalLink(
  outbox: Outbox,
  now: number,
  { token, isFramed, from }: { token: string; isFramed: boolean; from: SessionOrigin },
): Promise<string> {
  const { db } = outbox;
  return retryOnConflict(async () => {
    const found = await readPortalLink(db, token, now);
    if (!found) throw endedPortalLink();
    const { link } = found;
    if (!found.isOpen) throw found.account.suspendedAt === null ? endedPortalLink() : suspended();
    const { externalId, accountId, email, name, role } = link;
    const isThis = and(eq(members.accountId, accountId), eq(members.externalId, externalId), isNull(members.removedAt));
    const [known] = await db.select().from(members).where(isThis);
    const made: Member = {
      id: newId("mem", now),
      accountId,
      name,
      email,
      emailKey: "",
      role,
      externalId,
      removedAt: null,
      lastSeenAt: now,
      createdAt: now,
      zone: null,
    };
    const member = known ?? made;
    const session = newSession(member.id, link.id, now, from);
    const isLink = sql`portal_links.token_hash = ${link.tokenHash} AND ${isOpen(now)}`;
    const when = known
      ? sql`EXISTS (SELECT 1 FROM portal_links WHERE ${isLink}) AND EXISTS (SELECT 1 FROM members WHERE id = ${known.id} AND role = ${known.role} AND removed_at IS NULL)`
      : sql`EXISTS (SELECT 1 FROM portal_links WHERE ${isLink}) AND ${hasRoomForMember(accountId, now)}`;
    // After the insert of a new member, `when` can be false, because the account may have no more room. The later statements therefore check
    // the link and the member.
    const isMade = sql`EXISTS (SELECT 1 FROM members WHERE id = ${member.id} AND removed_at IS NULL)`;
    const actor = memberActor(member, from);
    const ofTeam = link.createdBy === null ? operatorOn(accountId) : tokenOn(accountId, link.createdBy);
    const target = { type: "member", id: member.id, name } as const;
    const joined = known ? [] : [auditEntry({ actor, now }, "member.joined", target)];
    const changed = known && known.role !== role ? [auditEntry({ actor: ofTeam, now }, "member.role_changed", target, ["role"])] : [];
    try {
      const { claimed } = await commitChange(outbox, {
        ...(known && { whenFull: changed.length > 0 ? ("write" as const) : ("unrecorded" as const) }),
        // A page of the team with a frame claims a link each time that it is opened.
        auditWhen: known && changed.length === 0 ? takesOwn({ actor, now }, "session.started") : sql`true`,
        events: known ? [] : [memberJoined(made, now)],
        audit: [
          ...joined,
          ...changed,
          auditEntry({ actor, now }, "session.started", { type: "session", id: session.row.id, name: "portal link" }),
        ],
        statements: {
          member: known
            ? db
                .update(members)
                .set({ role, name, email })
                .where(and(eq(members.id, known.id), when))
            : insertWhere(db, members, made, when),
          session: insertWhere(
            db,
            sessions,
            { ...session.row, returnUrl: link.returnUrl, portalTokenId: link.createdBy, isFramed },
            sql`${isMade} AND EXISTS (SELECT 1 FROM portal_links WHERE ${isLink})`,
          ),
          claimed: raw(db, sql`UPDATE portal_links SET claimed_at = ${now} WHERE ${isLink} AND ${isMade} RETURNING 1`),
          // What an older link says of the role is no longer so.
          older: raw(
            db,
            sql`DELETE FROM portal_links WHERE account_id = ${accountId} AND external_id = ${externalId} AND claimed_at IS NULL AND role <> ${role}
              AND id < ${link.id} AND ${isMade}`,
          ),
          oldest: endOldest(db, member.id),
        },
        when,
      });
      if (wrote(claimed)) return session.token;
    } catch (error) {
      // Another link has made the member at the same moment.
      if (!isDuplicate(error, "members.account_id, members.external_id")) throw error;
      return retry;
    }
    const [room] = known ? [] : await db.all<{ has: number }>(sql`SELECT ${hasRoomForMember(accountId, now)} AS has`);
    if (room?.has === 0 && !(await retireMember(db, accountId, now))) throw noRoomForMember();
    return retry;
  });
}

/**
 * Ends the session of a link that is claimed again: one of the two was not the person whom the team meant. The second press of the button in the same browser
 * ends nothing. Returns whether a session has ended.
 */
export async function endStolen(db: Db, { id, claimedAt }: PortalLink, now: number, { ip, userAgent }: SessionOrigin): Promise<boolean> {
  const isSamePress = claimedAt !== null && now - claimedAt < samePressMs;
  const isOther = isSamePress ? sql`(${sessions.ip} IS NOT ${ip} OR ${sessions.userAgent} IS NOT ${userAgent})` : sql`true`;
  const ended = await db
    .delete(sessions)
    .where(and(eq(sessions.openedWith, id), isOther))
    .returning({ id: sessions.id });
  return ended.length > 0;
}

/**
 * Makes room for another member: removes the one who came by portal links, was seen longest ago and has no session. A later link makes a new member of the
 * same person. Returns false if there is no such member.
 */
async function retireMember(db: Db, accountId: string, now: number): Promise<boolean> {
  const retired = await db.all(
    sql`UPDATE members SET removed_at = ${now} WHERE id = (SELECT id FROM members WHERE account_id = ${accountId} AND external_id IS NOT NULL
      AND removed_at IS NULL AND NOT EXISTS (SELECT 1 FROM sessions WHERE member_id = members.id AND created_at > ${now - maxPortalSessionMs})
      ORDER BY last_seen_at LIMIT 1) RETURNING id`,
  );
  return retired.length > 0;
}

/** Throws the reason why an account cannot get another link: it is suspended, or has too many open ones. */
export async function explainNoLink(db: Db, accountId: string): Promise<never> {
  if ((await readAccount(db, accountId)).suspendedAt !== null) throw suspended();
  const { ofAccount, ofPerson } = maxOpenLinks;
  throw new Failure(
    "limit_reached",
    `An account may have ${ofAccount.toLocaleString("en")} links that are neither used nor expired, and one person ${ofPerson}.`,
  );
}
