import { and, asc, eq, isNull } from "drizzle-orm";
import { createLocalJWKSet, errors, jwtVerify } from "jose";
import type { Account } from "../accounts/account.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { members } from "../db/areas/identity/tables.ts";
import type { Db } from "../db/client.ts";
import { Failure } from "../lib/errors/failure.ts";
import { secondMs } from "../lib/time/clock.ts";
import { accessKeys } from "./access-keys.ts";
import { emailKeyOf } from "./email.ts";
import type { Member } from "./member.ts";

// Members can sign in through Cloudflare Access instead of passkeys. Access runs in front of the Worker and identifies each visitor in a
// signed token (https://developers.cloudflare.com/cloudflare-one/identity/authorization-cookie/validating-json/).

/** The issuer and the audience that every Access token must have. */
export interface AccessConfig {
  /** The origin of the team, for example `https://acme.cloudflareaccess.com`. */
  teamDomain: string;
  /** The audience tag of the Access application. */
  audience: string;
}

/**
 * Returns null if Access is not used. Throws `unavailable` if only one of the two settings is set, because both are needed to verify a
 * token.
 */
export function accessConfig(env: { ACCESS_TEAM_DOMAIN: string; ACCESS_AUDIENCE: string }): AccessConfig | null {
  const [teamDomain, audience] = [env.ACCESS_TEAM_DOMAIN.trim().replace(/\/$/, ""), env.ACCESS_AUDIENCE.trim()];
  if (teamDomain === "" && audience === "") return null;
  if (teamDomain === "" || audience === "")
    throw new Failure("unavailable", "Sign-in is only partly set up. ACCESS_TEAM_DOMAIN and ACCESS_AUDIENCE must be set together.");
  return { teamDomain, audience };
}

const notIdentified = (cause?: unknown) => new Failure("forbidden", "Cloudflare Access did not confirm your identity.", { cause });

/**
 * Verifies a token and returns its email address and its issue time, in milliseconds since the epoch. Throws `forbidden` if the token is
 * not a valid token of this team for this application. Throws `unavailable` if the keys of the team cannot be read.
 */
export async function verifyAccess(
  { teamDomain, audience }: AccessConfig,
  token: string,
  now: number,
): Promise<{ email: string; issuedAt: number }> {
  const verify = async (isMissing: boolean) =>
    jwtVerify(token, createLocalJWKSet(await accessKeys(teamDomain, now, isMissing)), {
      issuer: teamDomain,
      audience,
      algorithms: ["RS256", "ES256"],
      requiredClaims: ["email", "iat", "exp"],
      currentDate: new Date(now),
    });
  try {
    const { payload } = await verify(false).catch((error: unknown) => {
      // Access may have rotated its keys since they were cached, so read the keys again.
      if (error instanceof errors.JWKSNoMatchingKey) return verify(true);
      throw error;
    });
    if (typeof payload.email !== "string" || payload.email === "") throw notIdentified();
    return { email: payload.email, issuedAt: (payload.iat ?? 0) * secondMs };
  } catch (cause) {
    throw cause instanceof Failure ? cause : notIdentified(cause);
  }
}

export interface Membership {
  member: Member;
  account: Account;
}

/** Returns the account memberships of an email address, oldest first. */
export async function listMemberships(db: Db, email: string): Promise<Membership[]> {
  const emailKey = emailKeyOf(email);
  if (emailKey === null) return [];
  return db
    .select({ member: members, account: accounts })
    .from(members)
    .innerJoin(accounts, eq(accounts.id, members.accountId))
    .where(and(eq(members.emailKey, emailKey), isNull(members.removedAt)))
    .orderBy(asc(members.createdAt), asc(members.id));
}

/**
 * Returns the membership in the chosen account, or the only membership if no account was chosen. Returns null if there is no such
 * membership. If the result is null, the visitor must choose an account.
 */
export function chosenMembership(memberships: readonly Membership[], accountId: string | undefined): Membership | null {
  if (accountId === undefined) return memberships.length === 1 ? (memberships[0] ?? null) : null;
  return memberships.find(({ account }) => account.id === accountId) ?? null;
}
