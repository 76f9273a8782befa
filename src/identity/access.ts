import { and, asc, eq, isNull } from "drizzle-orm";
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from "jose";
import type { Origin } from "../accounts/actor.ts";
import { minuteMs, secondMs } from "../clock.ts";
import { accounts, members } from "../db/schema-main.ts";
import { withDeadline } from "../deadline.ts";
import { Failure } from "../errors.ts";
import type { Outbox } from "../events/commit.ts";
import { joinByEmail } from "./invitations.ts";
import type { SignedIn } from "./sessions.ts";

// Cloudflare Access in place of passkeys: it stands before the Worker and sends along who has come, in a token that it signs
// (https://developers.cloudflare.com/cloudflare-one/identity/authorization-cookie/validating-json/).

/** Where the tokens come from, and for whom they must be. */
export interface AccessConfig {
  /** `https://acme.cloudflareaccess.com`. */
  teamDomain: string;
  /** The audience tag of the application. */
  audience: string;
}

/** Null where Access is not used. Throws `unavailable` where one of the two settings is missing: without the other, it would let in whoever has any token. */
export function accessConfig(env: { ACCESS_TEAM_DOMAIN: string; ACCESS_AUDIENCE: string }): AccessConfig | null {
  const [teamDomain, audience] = [env.ACCESS_TEAM_DOMAIN.trim().replace(/\/$/, ""), env.ACCESS_AUDIENCE.trim()];
  if (teamDomain === "" && audience === "") return null;
  if (teamDomain === "" || audience === "")
    throw new Failure("unavailable", "Sign-in is half set up: ACCESS_TEAM_DOMAIN and ACCESS_AUDIENCE belong together.");
  return { teamDomain, audience };
}

const keptMs = 60 * minuteMs;
const shortestMs = minuteMs;
const timeoutMs = 5 * secondMs;

/** The keys of each team, as an isolate last read them. */
const known = new Map<string, { keys: JSONWebKeySet; readAt: number }>();

async function keysOf(teamDomain: string, now: number, oldestMs: number): Promise<JSONWebKeySet> {
  const kept = known.get(teamDomain);
  if (kept && now - kept.readAt < oldestMs) return kept.keys;
  try {
    const response = await withDeadline(fetch(`${teamDomain}/cdn-cgi/access/certs`), timeoutMs, "Asking Access for its keys");
    const keys = (await response.json()) as JSONWebKeySet;
    known.set(teamDomain, { keys, readAt: now });
    return keys;
  } catch (cause) {
    throw new Failure("unavailable", "Cloudflare Access cannot be asked for its keys just now. Try again in a moment.", { cause });
  }
}

const refused = (cause?: unknown) => new Failure("forbidden", "Cloudflare Access has not said who you are.", { cause });

/** Whose token it is and when it was made. Throws `forbidden` for any other than one of the team for this application, `unavailable` where the keys cannot be had. */
export async function verifyAccess(
  { teamDomain, audience }: AccessConfig,
  token: string,
  now: number,
): Promise<{ email: string; issuedAt: number }> {
  const verify = async (oldestMs: number) =>
    jwtVerify(token, createLocalJWKSet(await keysOf(teamDomain, now, oldestMs)), {
      issuer: teamDomain,
      audience,
      algorithms: ["RS256", "ES256"],
      requiredClaims: ["email", "iat", "exp"],
    });
  try {
    const { payload } = await verify(keptMs).catch((error: unknown) => {
      // Access has changed its keys since.
      if (error instanceof errors.JWKSNoMatchingKey) return verify(shortestMs);
      throw error;
    });
    if (typeof payload.email !== "string" || payload.email === "") throw refused();
    return { email: payload.email, issuedAt: (payload.iat ?? 0) * secondMs };
  } catch (cause) {
    throw cause instanceof Failure ? cause : refused(cause);
  }
}

const sameEmail = (email: string) => eq(members.emailKey, email.toLowerCase());

/** The member with this address, who joins now where there is an invitation. Null where nobody has invited them. */
export async function memberByAccess(
  outbox: Outbox,
  now: number,
  { email, issuedAt, from }: { email: string; issuedAt: number; from: Origin },
): Promise<SignedIn | null> {
  let member = await findMember(outbox, email);
  if (member === null) {
    await joinByEmail(outbox, now, { email, from });
    // Of several first visits at once, one joins, and all are by the one who has.
    member = await findMember(outbox, email);
  }
  return member && { ...member, session: null, verifiedAt: issuedAt };
}

async function findMember({ db }: Outbox, email: string) {
  const [found] = await db
    .select({ member: members, account: accounts })
    .from(members)
    .innerJoin(accounts, eq(accounts.id, members.accountId))
    .where(and(sameEmail(email), isNull(members.removedAt)))
    .orderBy(asc(members.createdAt))
    .limit(1);
  return found ?? null;
}
