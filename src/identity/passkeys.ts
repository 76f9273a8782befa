import {
  type AuthenticationResponseJSON,
  type AuthenticatorTransport,
  generateAuthenticationOptions,
  generateRegistrationOptions,
  type RegistrationResponseJSON,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from "@simplewebauthn/server";
import { and, asc, eq, isNull, lt, sql } from "drizzle-orm";
import { audited } from "../audit/audit.ts";
import { isOneTooMany, maxOwn, mayStoreOwn } from "../audit/own-sign-in.ts";
import { hashOf } from "../crypto/hash.ts";
import type { NamedSecret } from "../crypto/secrets.ts";
import { isFailedCondition, requireInBatch } from "../db/batch-condition.ts";
import type { Db } from "../db/client.ts";
import { isDuplicate } from "../db/failures.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import { minuteMs } from "../time/clock.ts";
import type { WriteContext } from "../webhooks/outbox.ts";
import { endOfChallenge, makeChallenge } from "./challenge.ts";
import type { Member } from "./member.ts";
import { members, passkeys, spentChallenges } from "./tables.ts";

export type Passkey = typeof passkeys.$inferSelect;
export type NewPasskey = Pick<Passkey, "id" | "name" | "publicKey" | "counter" | "transports">;

/** For whom passkeys are made: configured, never taken from a request. */
export interface RelyingParty {
  /** `https://overview.acme.dev`. */
  origin: string;
  /** Sign what passkeys are asked to sign. */
  secrets: readonly [NamedSecret, ...NamedSecret[]];
}

/**
 * What a challenge is for, and for whom: one that was made to sign in confirms nothing else, and one of another member confirms nothing.
 * `subjectId`: the member, or the invitation that somebody joins by. Who signs in is not known yet.
 */
type Registration = { purpose: "join" | "add"; subjectId: string };
type Authentication = { purpose: "sign-in" } | { purpose: "confirm"; subjectId: string };

const purposeOf = (ceremony: Registration | Authentication): string =>
  "subjectId" in ceremony ? `${ceremony.purpose} ${ceremony.subjectId}` : ceremony.purpose;

const challengeMs = 5 * minuteMs;
const rpName = "Developer Overview";
/** As long as WebAuthn lets an id be: https://www.w3.org/TR/webauthn-3/#credential-id */
const maxIdBytes = 1023;
/** Four times as long as that of an RSA key of 4,096 bits. */
const maxPublicKeyBytes = 2048;
const knownTransports = ["ble", "cable", "hybrid", "internal", "nfc", "smart-card", "usb"];
/** Passkeys that a member may have. */
export const maxPasskeys = 20;
const idOf = ({ origin }: RelyingParty) => new URL(origin).hostname;

const refused = (cause?: unknown) => new Failure("forbidden", "The passkey was not taken. Try again, from the beginning.", { cause });

/**
 * The challenge that was signed, and when it ends. Throws `forbidden` where it is none of ours, has ended or was made for something else, and
 * for what was signed in a frame on a page of another site. None of our pages is shown in one.
 */
function signedChallenge(
  clientDataJSON: string,
  { secrets }: RelyingParty,
  purpose: string,
  now: number,
): [challenge: string, endsAt: number] {
  const data = JSON.parse(Buffer.from(clientDataJSON, "base64url").toString()) as Record<string, unknown>;
  if ((data.crossOrigin ?? false) !== false || data.topOrigin !== undefined) throw refused();
  const challenge = String(data.challenge);
  const endsAt = endOfChallenge(challenge, purpose, now, secrets);
  if (endsAt === null) throw refused();
  return [challenge, endsAt];
}

/** Uses up a challenge that was signed. Throws `forbidden` where it was used before. */
async function spendChallenge(db: Db, challenge: string, expiresAt: number, now: number): Promise<void> {
  const [, spent] = await db.batch([
    db.delete(spentChallenges).where(lt(spentChallenges.expiresAt, now)),
    db
      .insert(spentChallenges)
      .values({ challengeHash: hashOf(challenge), expiresAt })
      .onConflictDoNothing()
      .returning({ expiresAt: spentChallenges.expiresAt }),
  ]);
  if (!wrote(spent)) throw refused();
}

/** What a browser is asked to make a passkey by. */
export function registrationOptions(
  party: RelyingParty,
  now: number,
  { name, email, known = [], ...ceremony }: { name: string; email: string; known?: readonly Passkey[] } & Registration,
) {
  return generateRegistrationOptions({
    challenge: makeChallenge(purposeOf(ceremony), now + challengeMs, party.secrets),
    rpName,
    rpID: idOf(party),
    userName: email,
    userDisplayName: name,
    attestationType: "none",
    authenticatorSelection: { residentKey: "required", userVerification: "required" },
    excludeCredentials: known.map(({ id, transports }) => ({ id, transports: transports as AuthenticatorTransport[] })),
  });
}

/** The passkey that a browser has made. Throws `forbidden` for anything that is not exactly that. */
export async function verifyRegistration(
  db: Db,
  party: RelyingParty,
  now: number,
  { response: text, name, ...ceremony }: { response: string; name: string } & Registration,
): Promise<NewPasskey> {
  try {
    const response = JSON.parse(text) as RegistrationResponseJSON;
    const [expectedChallenge, endsAt] = signedChallenge(response.response.clientDataJSON, party, purposeOf(ceremony), now);
    const verified = await verifyRegistrationResponse({
      response,
      expectedChallenge,
      expectedOrigin: party.origin,
      expectedRPID: idOf(party),
    });
    if (!verified.verified) throw refused();
    const { id, publicKey, counter, transports = [] } = verified.registrationInfo.credential;
    if (Buffer.from(id, "base64url").length > maxIdBytes || publicKey.length > maxPublicKeyBytes) throw refused();
    await spendChallenge(db, expectedChallenge, endsAt, now);
    const known = [...new Set<string>(transports)].filter((transport) => knownTransports.includes(transport));
    return { id, name, publicKey: Buffer.from(publicKey).toString("base64url"), counter, transports: known };
  } catch (cause) {
    throw refused(cause);
  }
}

/** What a browser is asked to sign by. */
export const authenticationOptions = (party: RelyingParty, now: number, ceremony: Authentication) =>
  generateAuthenticationOptions({
    challenge: makeChallenge(purposeOf(ceremony), now + challengeMs, party.secrets),
    rpID: idOf(party),
    userVerification: "required",
  });

/** Whose passkey has signed. Throws `forbidden` for anything that is not exactly that. To confirm, only the member's own will do. */
export async function verifyAuthentication(
  db: Db,
  party: RelyingParty,
  now: number,
  { response: text, ...ceremony }: { response: string } & Authentication,
): Promise<Member> {
  try {
    const response = JSON.parse(text) as AuthenticationResponseJSON;
    const [expectedChallenge, endsAt] = signedChallenge(response.response.clientDataJSON, party, purposeOf(ceremony), now);
    const [found] = await db
      .select({ passkey: passkeys, member: members })
      .from(passkeys)
      .innerJoin(members, eq(members.id, passkeys.memberId))
      .where(and(eq(passkeys.id, String(response.id)), isNull(members.removedAt)));
    if (!found || ("subjectId" in ceremony && found.member.id !== ceremony.subjectId)) throw refused();
    const { passkey, member } = found;
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge,
      expectedOrigin: party.origin,
      expectedRPID: idOf(party),
      credential: {
        id: passkey.id,
        publicKey: new Uint8Array(Buffer.from(passkey.publicKey, "base64url")),
        counter: passkey.counter,
        transports: passkey.transports as AuthenticatorTransport[],
      },
    });
    if (!verified) throw refused();
    await spendChallenge(db, expectedChallenge, endsAt, now);
    await db.update(passkeys).set({ counter: authenticationInfo.newCounter, lastUsedAt: now }).where(eq(passkeys.id, passkey.id));
    return member;
  } catch (cause) {
    throw cause instanceof Failure ? cause : refused(cause);
  }
}

/** The passkeys of a member, the oldest first. */
export const listPasskeys = (db: Db, memberId: string): Promise<Passkey[]> =>
  db.select().from(passkeys).where(eq(passkeys.memberId, memberId)).orderBy(asc(passkeys.createdAt));

export const takenPasskey = (cause: unknown) =>
  new Failure("conflict", "This passkey is registered already. Make a new one, or use another device.", { cause });

const mayHaveMore = "the member may have one more passkey";

/** What the audit log calls a passkey: its id may be long. */
const auditIdOf = ({ id }: Pick<Passkey, "id">): string => hashOf(id).slice(0, 32);

/** Gives a member one more passkey. Throws `conflict` for one that is registered, and `limit_reached`. */
export async function addPasskey(writing: WriteContext, member: Pick<Member, "id">, passkey: NewPasskey): Promise<void> {
  const { db, now, commit } = writing;
  await commit({
    result: null,
    events: [],
    audit: [audited(writing, "passkey.added", { type: "passkey", id: auditIdOf(passkey), name: passkey.name })],
    statements: [
      requireInBatch(
        db,
        { holds: sql`(SELECT count(*) FROM passkeys WHERE member_id = ${member.id}) < ${maxPasskeys}`, name: mayHaveMore },
        mayStoreOwn(writing, "passkey.added"),
      ),
      db.insert(passkeys).values({ ...passkey, memberId: member.id, lastUsedAt: null, createdAt: now }),
    ],
  }).catch((error: unknown) => {
    if (isFailedCondition(error, mayHaveMore))
      throw new Failure("limit_reached", `You may have ${maxPasskeys} passkeys. Remove one that is no longer used.`, { cause: error });
    if (isOneTooMany(error, "passkey.added"))
      throw new Failure("limit_reached", `You added ${maxOwn["passkey.added"]} passkeys in 24 hours. Try again tomorrow.`, {
        cause: error,
      });
    throw isDuplicate(error, "passkeys.id") ? takenPasskey(error) : error;
  });
}

/** Removes a passkey of a member. Throws `not_found`, and `conflict` for the last one. */
export async function removePasskey(writing: WriteContext, member: Pick<Member, "id">, id: string): Promise<void> {
  const { db, commit } = writing;
  const [own] = await db
    .select()
    .from(passkeys)
    .where(and(eq(passkeys.id, id), eq(passkeys.memberId, member.id)));
  if (!own) throw new Failure("not_found", "There is no such passkey.");
  const when = sql`(SELECT count(*) FROM passkeys WHERE member_id = ${member.id}) > 1 AND EXISTS (SELECT 1 FROM passkeys WHERE id = ${id})`;
  const outcomes = await commit({
    evenWhereFull: true,
    result: null,
    events: [],
    audit: [audited(writing, "passkey.removed", { type: "passkey", id: auditIdOf(own), name: own.name })],
    statements: [
      db
        .delete(passkeys)
        .where(and(eq(passkeys.id, id), eq(passkeys.memberId, member.id), when))
        .returning({ id: passkeys.id }),
    ],
    when,
  });
  if (!wrote(outcomes.at(-1))) throw new Failure("conflict", "This is your last passkey. Add another one first.");
}
