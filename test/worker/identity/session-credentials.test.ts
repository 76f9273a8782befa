import { describe, expect, it } from "vitest";
import { addPasskey } from "../../../src/identity/passkeys.ts";
import { spendRecoveryCode } from "../../../src/identity/recovery-codes.ts";
import { confirmSession, openSession, type Proof, readSession, type Session, stepUpMs } from "../../../src/identity/sessions.ts";
import { commitTo } from "../../../src/outbox/outbox.ts";
import { db, makeTenant } from "../support/client.ts";
import { countAuditRows } from "../support/log-rows.ts";
import { backdateSessions } from "../support/member-rows.ts";
import {
  fakePasskey,
  insertOwnAuditEntries,
  makePerson,
  noOrigin,
  type Person,
  sessionCookie,
  sessionTokenIn,
  withCookie,
} from "../support/people.ts";

// A session ends with the credential that opened or last confirmed it.

interface Browser extends Pick<Person, "get" | "post"> {
  token: string;
}

/** Signs a member in with a credential, as in another browser. */
async function signIn(proof: Proof): Promise<Browser> {
  const token = await openSession({ db }, proof, Date.now(), noOrigin);
  return { token, ...withCookie(await sessionCookie(token)) };
}

async function sessionOf({ token }: { token: string }): Promise<Session> {
  const found = await readSession(db, token, Date.now());
  if (!found) throw new Error("the session has ended");
  return found.session;
}

const isAlive = async ({ token }: { token: string }) => (await readSession(db, token, Date.now())) !== null;
const confirm = async (browser: Browser, proof: Proof) => confirmSession({ db }, proof, await sessionOf(browser), Date.now(), noOrigin);

/** Returns a member with a second passkey. `first` and `second` are the proofs of the two passkeys. */
async function makeMember() {
  const { accountId } = await makeTenant();
  const person = await makePerson(accountId, "viewer");
  const { member, proof: first } = person;
  const passkey = fakePasskey();
  const context = {
    db,
    now: Date.now(),
    actor: { accountId, by: { type: "member" as const, id: member.id }, from: noOrigin },
    commit: commitTo({ db }),
  };
  await addPasskey(context, member, passkey);
  return { accountId, person, context, own: { token: sessionTokenIn(person.cookie) }, first, second: { ...first, credential: passkey.id } };
}

/** Uses one of a member's recovery codes. */
async function spend({ codes, member }: Person, index = 0): Promise<Proof> {
  const proof = await spendRecoveryCode(db, codes[index] ?? "", Date.now(), member.id);
  if (!proof) throw new Error("the recovery code was not accepted");
  return proof;
}

const removal = ({ credential }: Proof) => `/settings/passkeys/${credential}/remove`;

describe("The removal of a passkey", () => {
  it("ends the sessions that were opened or last confirmed with the passkey, and no other session", async () => {
    const { person, own, first, second } = await makeMember();
    const [openedWithIt, openedOrConfirmed, confirmedWithIt, confirmedBefore, other] = [
      await signIn(second),
      await signIn(second),
      await signIn(first),
      await signIn(first),
      await signIn(await spend(person)),
    ];
    await confirm(openedOrConfirmed, first);
    await confirm(confirmedWithIt, second);
    await confirm(confirmedBefore, second);
    await confirm(confirmedBefore, first);
    const response = await person.post(removal(second));
    expect([response.status, response.headers.get("Location")]).toEqual([303, "/settings?done=passkey-removed"]);
    const alive = await Promise.all([openedWithIt, openedOrConfirmed, confirmedWithIt, confirmedBefore, other, own].map(isAlive));
    expect(alive).toEqual([false, false, false, true, true, true]);
  });

  it("ends the session that removes it, unless another credential confirmed this session last", async () => {
    const { first, second } = await makeMember();
    const [unconfirmed, confirmed] = [await signIn(second), await signIn(second)];
    await confirm(confirmed, first);
    expect((await confirmed.post(removal(second))).status).toBe(303);
    expect([await isAlive(unconfirmed), await isAlive(confirmed)]).toEqual([false, true]);
    // The session is no longer linked to the removed passkey, so it can go on.
    expect((await confirmed.get("/settings")).text).toContain("this session");

    const more = await makeMember();
    const alone = await signIn(more.second);
    const removed = await alone.post(removal(more.second));
    expect(removed.status).toBe(303);
    expect(await isAlive(alone)).toBe(false);
    // The next page is the sign-in page, which leads back to what the removal did.
    const next = await alone.get(removed.headers.get("Location") ?? "");
    expect(next.headers.get("Location")).toBe(`/login?return_to=${encodeURIComponent("/settings?done=passkey-removed")}`);
  });

  it("ends nothing if it is the last passkey", async () => {
    const { accountId } = await makeTenant();
    const person = await makePerson(accountId, "viewer");
    expect((await person.post(removal(person.proof))).status).toBe(422);
    expect((await person.get("/settings")).status).toBe(200);
  });

  it("keeps a sign-in out that began before it", async () => {
    const { person, second } = await makeMember();
    const session = await sessionOf({ token: sessionTokenIn(person.cookie) });
    await person.post(removal(second));
    await expect(signIn(second)).rejects.toThrow("no longer works");
    await expect(confirmSession({ db }, second, session, Date.now(), noOrigin)).rejects.toThrow("no longer works");
    expect((await sessionOf({ token: sessionTokenIn(person.cookie) })).confirmedWith).toBe(session.confirmedWith);
  });
});

describe("The replacement of the recovery codes", () => {
  it("ends the sessions that were opened or last confirmed with an earlier code, and no other session", async () => {
    const { person, own, first } = await makeMember();
    const [openedWithCode, confirmedWithCode, other] = [await signIn(await spend(person, 0)), await signIn(first), await signIn(first)];
    await confirm(confirmedWithCode, await spend(person, 1));
    const { status, text } = await person.post("/settings/recovery-codes");
    expect([status, text.includes("the sessions that used them have ended")]).toEqual([200, true]);
    expect(await Promise.all([openedWithCode, confirmedWithCode, other, own].map(isAlive))).toEqual([false, false, true, true]);
  });

  it("shows the new codes to a session that confirmed with an earlier code in the same form, and ends this session", async () => {
    const { person, own } = await makeMember();
    await backdateSessions(person.member.id, "verified_at", stepUpMs);
    const { status, text } = await person.post("/settings/recovery-codes", { confirm_code: person.codes[0] ?? "" });
    expect([status, text.includes("If this session used one, sign in again.")]).toEqual([200, true]);
    expect(await isAlive(own)).toBe(false);
    const [code = ""] = /(?:[2-9a-z]{5}-){4}[2-9a-z]{5}/.exec(text) ?? [];
    expect(await spendRecoveryCode(db, code, Date.now())).toMatchObject({ member: { id: person.member.id } });
  });

  it("ends these sessions even if no new codes can be made today", async () => {
    const { person, own } = await makeMember();
    const openedWithCode = await signIn(await spend(person));
    await insertOwnAuditEntries(person, "recovery_codes.made", 20);
    expect((await person.post("/settings/recovery-codes")).status).toBe(409);
    expect(await Promise.all([openedWithCode, own].map(isAlive))).toEqual([false, true]);
  });
});

describe("The button Sign out everywhere else", () => {
  it("ends all other sessions of the member in one batch, with one audit entry", async () => {
    const { accountId, person, own, first, second } = await makeMember();
    const colleague = await makePerson(accountId, "viewer");
    const others = [await signIn(first), await signIn(second), await signIn(await spend(person))];
    expect((await person.get("/settings")).text).toContain("Sign out everywhere else");
    const before = await countAuditRows(accountId, "session.ended");
    const response = await person.post("/settings/sessions/end-others");
    expect([response.status, response.headers.get("Location")]).toEqual([303, "/settings?done=others-ended"]);
    expect(await Promise.all([...others, own].map(isAlive))).toEqual([false, false, false, true]);
    expect((await colleague.get("/settings")).status).toBe(200);
    expect(await countAuditRows(accountId, "session.ended")).toBe(before + 1);
    // There is no other session, so there is no button, and the form changes nothing.
    expect((await person.get("/settings?done=others-ended")).text).not.toContain("Sign out everywhere else");
    expect((await person.post("/settings/sessions/end-others")).status).toBe(303);
    expect([await isAlive(own), await countAuditRows(accountId, "session.ended")]).toEqual([true, before + 1]);
  });
});
