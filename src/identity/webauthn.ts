import {
  type AuthenticationResponseJSON,
  type AuthenticatorTransport,
  generateAuthenticationOptions,
  generateRegistrationOptions,
  type RegistrationResponseJSON,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from "@simplewebauthn/server";
import { and, eq, isNull, lt } from "drizzle-orm";
import { members, passkeys, spentChallenges } from "../db/areas/identity/tables.ts";
import type { Db } from "../db/client.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import type { NamedSecret } from "../lib/crypto/secrets.ts";
import { Failure } from "../lib/errors/failure.ts";
import { shownName } from "../lib/settings.ts";
import { minuteMs } from "../lib/time/clock.ts";
import { makeChallenge, verifyChallenge } from "./challenge.ts";
import type { Proof } from "./sessions.ts";

export type Passkey = typeof passkeys.$inferSelect;
export type NewPasskey = Pick<Passkey, "id" | "name" | "publicKey" | "counter" | "transports">;

/** The website that passkeys are created for. The values of this interface come from the configuration, never from a request. */
export interface RelyingParty {
  /** The origin of the overview, for example `https://overview.acme.dev`. */
  origin: string;
  /** The secrets that sign the challenges. */
  secrets: readonly [NamedSecret, ...NamedSecret[]];
}

/**
 * The purpose and the subject of a challenge. A sign-in challenge is not valid for a confirmation, and a member's challenge is not valid
 * for another member. `subjectId` is the id of the member, or the id of the invitation that a new member accepts. A sign-in has no
 * `subjectId`, because the member is not known yet.
 */
type Registration = { purpose: "join" | "add"; subjectId: string };
type Authentication = { purpose: "sign-in" } | { purpose: "confirm"; subjectId: string };

const purposeOf = (ceremony: Registration | Authentication): string =>
  "subjectId" in ceremony ? `${ceremony.purpose} ${ceremony.subjectId}` : ceremony.purpose;

const challengeMs = 5 * minuteMs;
const rpName = shownName;
/** The maximum length of a credential id, in bytes. The limit comes from WebAuthn: https://www.w3.org/TR/webauthn-3/#credential-id */
const maxIdBytes = 1023;
/** The maximum length of a public key, in bytes. The limit is about four times the length of a 4,096-bit RSA key. */
const maxPublicKeyBytes = 2048;
const knownTransports = ["ble", "cable", "hybrid", "internal", "nfc", "smart-card", "usb"];
const idOf = ({ origin }: RelyingParty) => new URL(origin).hostname;

const notAccepted = (cause?: unknown) =>
  new Failure("forbidden", "The passkey was not accepted. Start again from the beginning.", { cause });

/**
 * Returns the signed challenge and its expiry, in milliseconds since the epoch. Throws `forbidden` if the challenge is forged, has expired
 * or was made for another purpose. Also throws `forbidden` if the challenge was signed in a frame on another site. Pages of the overview
 * are never shown in a frame.
 */
function signedChallenge(
  clientDataJSON: string,
  { secrets }: RelyingParty,
  purpose: string,
  now: number,
): [challenge: string, endsAt: number] {
  const data = JSON.parse(Buffer.from(clientDataJSON, "base64url").toString()) as Record<string, unknown>;
  if ((data.crossOrigin ?? false) !== false || data.topOrigin !== undefined) throw notAccepted();
  const challenge = String(data.challenge);
  const endsAt = verifyChallenge(challenge, purpose, now, secrets);
  if (endsAt === null) throw notAccepted();
  return [challenge, endsAt];
}

/** Marks a signed challenge as used. Throws `forbidden` if the challenge was used before. */
async function spendChallenge(db: Db, challenge: string, expiresAt: number, now: number): Promise<void> {
  const [, spent] = await db.batch([
    db.delete(spentChallenges).where(lt(spentChallenges.expiresAt, now)),
    db
      .insert(spentChallenges)
      .values({ challengeHash: hashOf(challenge), expiresAt })
      .onConflictDoNothing()
      .returning({ expiresAt: spentChallenges.expiresAt }),
  ]);
  if (!wrote(spent)) throw notAccepted();
}

/** Returns the options that a browser needs to create a passkey. */
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

/** Returns the passkey that a browser created. Throws `forbidden` if the response is not valid. */
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
    if (!verified.verified) throw notAccepted();
    const { id, publicKey, counter, transports = [] } = verified.registrationInfo.credential;
    if (Buffer.from(id, "base64url").length > maxIdBytes || publicKey.length > maxPublicKeyBytes) throw notAccepted();
    await spendChallenge(db, expectedChallenge, endsAt, now);
    const known = [...new Set<string>(transports)].filter((transport) => knownTransports.includes(transport));
    return { id, name, publicKey: Buffer.from(publicKey).toString("base64url"), counter, transports: known };
  } catch (cause) {
    throw notAccepted(cause);
  }
}

/** Returns the options that a browser needs to sign a challenge. */
export const authenticationOptions = (party: RelyingParty, now: number, ceremony: Authentication) =>
  generateAuthenticationOptions({
    challenge: makeChallenge(purposeOf(ceremony), now + challengeMs, party.secrets),
    rpID: idOf(party),
    userVerification: "required",
  });

/**
 * Returns the member whose passkey signed the challenge. Throws `forbidden` if the response is not valid. For a confirmation, the passkey
 * must belong to the member who confirms.
 */
export async function verifyAuthentication(
  db: Db,
  party: RelyingParty,
  now: number,
  { response: text, ...ceremony }: { response: string } & Authentication,
): Promise<Proof> {
  try {
    const response = JSON.parse(text) as AuthenticationResponseJSON;
    const [expectedChallenge, endsAt] = signedChallenge(response.response.clientDataJSON, party, purposeOf(ceremony), now);
    const [found] = await db
      .select({ passkey: passkeys, member: members })
      .from(passkeys)
      .innerJoin(members, eq(members.id, passkeys.memberId))
      .where(and(eq(passkeys.id, String(response.id)), isNull(members.removedAt)));
    if (!found || ("subjectId" in ceremony && found.member.id !== ceremony.subjectId)) throw notAccepted();
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
    if (!verified) throw notAccepted();
    await spendChallenge(db, expectedChallenge, endsAt, now);
    await db.update(passkeys).set({ counter: authenticationInfo.newCounter, lastUsedAt: now }).where(eq(passkeys.id, passkey.id));
    return { member, how: "passkey", credential: passkey.id };
  } catch (cause) {
    throw cause instanceof Failure ? cause : notAccepted(cause);
  }
}
