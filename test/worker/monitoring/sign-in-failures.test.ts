import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { hourMs, minuteMs, secondMs } from "../../../src/lib/time/clock.ts";
import { slots } from "../../../src/monitoring/sign-in-failures.ts";
import { answerOf, call, makeTenant, origin } from "../support/client.ts";
import { backdateSessions } from "../support/member-rows.ts";
import { operatorToken } from "../support/operate.ts";
import { countSignInAttemptRows, deleteOperatorEntries, fillSignInAttempts } from "../support/operations-rows.ts";
import { formHeaders, makePerson, postForm } from "../support/people.ts";

let addressCount = 0;
/** Returns an IP address that no other test uses. */
const newAddress = () => `198.51.${Math.floor(++addressCount / 250)}.${(addressCount % 250) + 1}`;

/** Calls the operator API from an IP address, with a token. */
const callWithToken = async (token: string, ip: string, path = "/team/v1/accounts") => {
  const headers = { Authorization: `Bearer ${token}`, "CF-Connecting-IP": ip };
  return answerOf(await exports.default.fetch(new Request(origin + path, { headers })));
};

/** Sends the sign-in form of the operator page. */
const signInAsOperator = async (token: string, ip: string) => {
  const request = { method: "POST", headers: { ...formHeaders, "CF-Connecting-IP": ip }, body: `token=${token}`, redirect: "manual" };
  return exports.default.fetch(new Request(`${origin}/operator/session`, request as RequestInit));
};

/** Signs a member in with a recovery code. */
const signInWithCode = async (code: string, ip: string) => postForm("/login/recovery", { code }, { "CF-Connecting-IP": ip });

/** Reads from the metrics how often a wrong credential of this kind was sent. */
const readFailureCount = async (credential: string): Promise<number> => {
  const { text } = await callWithToken(operatorToken, newAddress(), "/metrics");
  expect(text).toContain("# TYPE dvo_sign_in_failures_total counter\n");
  return Number(new RegExp(`^dvo_sign_in_failures_total\\{credential="${credential}"\\} (\\d+)$`, "m").exec(text)?.[1]);
};

const readOperatorEntries = async (action: string): Promise<{ details: object; operator: string }[]> => {
  // Other tests may have made many entries since.
  const { body } = await callWithToken(operatorToken, newAddress(), `/team/v1/audit?action=${action}`);
  return body.data;
};

// Attempts are counted for each minute of the clock, so the clock stands still during a test.
beforeEach(() => void vi.setSystemTime(Math.floor(Date.now() / minuteMs) * minuteMs + secondMs));
afterEach(() => void vi.useRealTimers());

describe("A wrong operator token", () => {
  it("is counted, and recorded in one audit log entry a minute, without the token", async () => {
    const ip = newAddress();
    const failuresBefore = await readFailureCount("operator_token");
    // Another test may have sent a wrong token in the same minute.
    await deleteOperatorEntries("operator_token.refused");
    for (const address of [ip, ip, newAddress()]) expect((await callWithToken("dvop_wrong-token", address)).status).toBe(401);
    expect((await readFailureCount("operator_token")) - failuresBefore).toBe(3);
    const entries = await readOperatorEntries("operator_token.refused");
    expect(entries).toMatchObject([{ operator: "unknown", details: { ip } }]);
    expect(JSON.stringify(entries)).not.toContain("wrong-token");
  });

  it("gets 429 after ten attempts in a minute, but the correct token still works from the same address", async () => {
    const ip = newAddress();
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 12; attempt++) statuses.push((await callWithToken(`wrong-${attempt}`, ip)).status);
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
    const denied = await callWithToken("wrong", ip);
    expect(denied.body.code).toBe("too_many_attempts");
    expect(Number(denied.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(Number(denied.headers.get("Retry-After"))).toBeLessThanOrEqual(60);
    expect((await callWithToken(operatorToken, ip)).status).toBe(200);
    expect((await callWithToken("wrong", newAddress())).status).toBe(401);
    expect([(await signInAsOperator("wrong", ip)).status, (await signInAsOperator(operatorToken, ip)).status]).toEqual([429, 303]);
  });

  it("counts against its whole IPv6 network of 64 bits, and against no other network", async () => {
    const suffix = (++addressCount).toString(16);
    const network = `2001:db8:0:${suffix}`;
    for (let host = 1; host <= 10; host++) await callWithToken("wrong", `${network}::${host}`);
    expect((await callWithToken("wrong", `${network}:1:2:3:4`)).status).toBe(429);
    expect((await callWithToken("wrong", `2001:db8:1:${suffix}::1`)).status).toBe(401);
  });
});

describe("A wrong recovery code", () => {
  it("is counted, and recorded for the operator if its account is unknown", async () => {
    const before = await readFailureCount("recovery_code");
    expect((await signInWithCode("aaaaa-bbbbb-ccccc-ddddd-eeeee", newAddress())).status).toBe(403);
    expect((await readFailureCount("recovery_code")) - before).toBe(1);
    const entries = await readOperatorEntries("recovery_code.refused");
    expect(entries[0]).toMatchObject({ operator: "unknown" });
    expect(JSON.stringify(entries)).not.toContain("aaaaa");
  });

  it("that was used before is recorded in the audit log of its account once a minute, with the IP address", async () => {
    const { accountId, key } = await makeTenant();
    const { member, codes } = await makePerson(accountId);
    expect((await signInWithCode(codes[0] ?? "", newAddress())).status).toBe(303);
    const ip = newAddress();
    for (let attempt = 0; attempt < 3; attempt++) expect((await signInWithCode(codes[0] ?? "", ip)).status).toBe(403);
    const { data } = (await call("GET", "/api/v1/audit?action=recovery_code.refused", { key })).body;
    expect(data).toMatchObject([{ actor: { type: "system" }, target: { type: "member", id: member.id }, ip }]);
  });

  it("of a signed-in member is recorded in the account's audit log, and limited apart from other members and visitors", async () => {
    const { accountId, key } = await makeTenant();
    const { member, codes, post } = await makePerson(accountId);
    await backdateSessions(member.id, "verified_at", hourMs);
    const ip = newAddress();
    const confirm = async (code: string, address: string) =>
      (await post("/keys", { name: "x", confirm_code: code }, { "CF-Connecting-IP": address })).text;
    for (let attempt = 0; attempt < 10; attempt++) expect(await confirm("wrong", ip)).toContain("not one of your recovery codes");
    expect(await confirm("wrong", ip)).toContain("Too many wrong codes");
    expect((await signInWithCode("wrong", ip)).status).toBe(403);
    const other = await makePerson(accountId);
    await backdateSessions(other.member.id, "verified_at", hourMs);
    const created = await other.post("/keys", { name: "y", confirm_code: other.codes[0] ?? "" }, { "CF-Connecting-IP": ip });
    expect(created.text).toContain('aria-label="Secret key"');
    // From another IP address, the member can confirm their identity.
    expect(await confirm(codes[0] ?? "", newAddress())).toContain('aria-label="Secret key"');
    const { data } = (await call("GET", "/api/v1/audit?action=recovery_code.refused", { key })).body;
    expect(data).toMatchObject([{ actor: { type: "member", id: member.id }, target: { id: member.id }, ip }]);
  });

  it("blocks its address for the rest of the minute after ten attempts, even for a correct code, and no other address", async () => {
    const { codes } = await makePerson((await makeTenant()).accountId);
    const ip = newAddress();
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 11; attempt++) statuses.push((await signInWithCode(`wrong-${attempt}`, ip)).status);
    expect(statuses).toEqual([...Array(10).fill(403), 429]);
    const denied = await signInWithCode(codes[0] ?? "", ip);
    expect([denied.status, denied.text.includes("Too many wrong codes")]).toEqual([429, true]);
    expect((await signInWithCode(codes[0] ?? "", newAddress())).status).toBe(303);
  });

  it("no longer counts after a correct code from the same address", async () => {
    const { codes } = await makePerson((await makeTenant()).accountId);
    const ip = newAddress();
    for (const code of [codes[0] ?? "", codes[1] ?? ""]) {
      for (let attempt = 0; attempt < 9; attempt++) expect((await signInWithCode("wrong", ip)).status).toBe(403);
      expect((await signInWithCode(code, ip)).status).toBe(303);
    }
  });

  it("is counted in a fixed number of rows, which all addresses share", async () => {
    await fillSignInAttempts(slots);
    for (let attempt = 0; attempt < 20; attempt++) await signInWithCode("wrong", newAddress());
    expect(await countSignInAttemptRows()).toBe(slots);
  });
});
