import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { generateSignedCookie } from "hono/cookie";
import { expect, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { cookieSecrets } from "../../../src/http/signed-cookie.ts";
import { createSetupLink } from "../../../src/identity/invitations.ts";
import { acceptInvitation } from "../../../src/identity/join.ts";
import type { Member } from "../../../src/identity/member.ts";
import type { Role } from "../../../src/identity/roles.ts";
import type { Proof } from "../../../src/identity/sessions.ts";
import { idBound } from "../../../src/lib/ids.ts";
import { minuteMs } from "../../../src/lib/time/clock.ts";
import type { Authenticator, ClientData } from "./authenticator.ts";
import { type Answer, answerOf, db, origin } from "./client.ts";
import { backdateSessions, readLastSeen, setRoleOfOpenInvitations } from "./member-rows.ts";

// Creates members for tests with the same code as the pages. The passkeys of these members are fake. Real browsers create passkeys in
// test/browser/sign-in.test.ts. The overview in these tests requires a sign-in.

const app = createApp({ isLocal: true, isOpen: false });

export interface Person {
  member: Member;
  /** What opened the session: the passkey of the member. */
  proof: Proof;
  /** The recovery codes of the member. */
  codes: string[];
  /** The session cookie in the form of a browser's `Cookie` header. */
  cookie: string;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(
    path: string,
    fields?: Record<string, string | readonly string[]>,
    headers?: Record<string, string>,
    bindings?: Env,
  ): Promise<Answer>;
}

/** Sends a request to an overview that requires a sign-in. */
export async function sendRequest(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: string,
  bindings: Env = env,
): Promise<Answer> {
  const ctx = createExecutionContext();
  const request = new Request(origin + path, { method, headers, redirect: "manual", ...(body !== undefined && { body }) });
  const answer = await answerOf(await app.fetch(request, bindings, ctx));
  await waitOnExecutionContext(ctx);
  return answer;
}

/** The headers of a form submission from a page of the overview. */
export const formHeaders = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };

/** Sends a form without a session cookie to an overview that requires a sign-in. */
export const postForm = (path: string, fields: Record<string, string> = {}, headers: Record<string, string> = {}) =>
  sendRequest("POST", path, { ...formHeaders, ...headers }, new URLSearchParams(fields).toString());

/** Returns functions that send requests and forms with the given cookie. */
export function withCookie(cookie: string): Pick<Person, "get" | "post"> {
  return {
    get: (path, headers = {}) => sendRequest("GET", path, { Cookie: cookie, ...headers }),
    post(path, fields = {}, headers = {}, bindings = env) {
      const body = new URLSearchParams();
      for (const [name, value] of Object.entries(fields)) for (const each of [value].flat()) body.append(name, each);
      return sendRequest("POST", path, { Cookie: cookie, ...formHeaders, ...headers }, body.toString(), bindings);
    },
  };
}

/** Returns the signed cookie for a session token, in the form of a browser's `Cookie` header. */
export async function sessionCookie(token: string): Promise<string> {
  const [cookie = ""] = (await generateSignedCookie("session", token, cookieSecrets(env)[0] ?? "")).split(";");
  return cookie;
}

/**
 * Returns the session cookie that a response sets, in the form of a browser's `Cookie` header. Returns an empty string if the response sets
 * no session cookie.
 */
export const sessionCookieOf = ({ headers }: Answer): string => /session=[^;]+/.exec(headers.get("Set-Cookie") ?? "")?.[0] ?? "";

/** Returns the session token that a cookie contains, or an empty string. */
export const sessionTokenIn = (cookie: string): string => /=([\w-]{43})\./.exec(cookie)?.[1] ?? "";

/** The origin of a request without a known IP address, country or user agent. */
export const noOrigin = { ip: null, country: null, userAgent: null };

/** Returns the details of a passkey whose public key is empty. */
export const fakePasskey = (id: string = crypto.randomUUID()) => ({ id, name: "A passkey", publicKey: "", counter: 0, transports: [] });

export const newEmailAddress = () => `${crypto.randomUUID()}@example.com`;

/** Accepts an invitation or a setup link, with a fake passkey. */
export const accept = (token: string, email: string, database = db) =>
  acceptInvitation({ db: database }, Date.now(), { token, person: { name: "x", email }, passkey: fakePasskey(), from: noOrigin });

/** Registers a passkey for a signed-in member. */
export async function addPasskey(person: Person, authenticator: Authenticator, client: ClientData = {}): Promise<Answer> {
  const { body: options } = await person.post("/settings/passkeys/options");
  return person.post("/settings/passkeys", { name: "Another", response: await authenticator.register(options, client) });
}

/** Requests a new challenge, and signs the challenge with the passkey. Returns the form field for the sign-in. */
export async function signInResponseOf(authenticator: Authenticator, client: ClientData = {}): Promise<{ response: string }> {
  const { body: options } = await postForm("/login/options");
  return { response: await authenticator.sign(options, client) };
}

/** Creates a member who has just joined with the given role. */
export async function makePerson(accountId: string, role: Role = "owner"): Promise<Person> {
  const now = Date.now();
  const token = await createSetupLink({ db, now }, accountId);
  await setRoleOfOpenInvitations(accountId, role);
  const id = crypto.randomUUID();
  const claimed = await acceptInvitation({ db }, now, {
    token,
    person: { name: `${role} ${id.slice(0, 4)}`, email: `${id}@example.com` },
    passkey: fakePasskey(id),
    from: { ip: "203.0.113.7", country: "NO", userAgent: "A browser" },
  });
  const cookie = await sessionCookie(claimed.token);
  const proof: Proof = { member: claimed.member, how: "passkey", credential: id };
  return { member: claimed.member, proof, codes: claimed.codes, cookie, ...withCookie(cookie) };
}

export interface HeldForm {
  /** Sends the rest of the form. Returns the response. */
  release(): Promise<Answer>;
}

/**
 * Sends the first part of a form with a member's session, and waits until the app has accepted the session. A test can then change the
 * member before `release` sends the rest of the form.
 */
export async function holdForm({ member, cookie }: Person, path: string, fields: Record<string, string>): Promise<HeldForm> {
  // The app updates the stored last use of a session only if the stored time is more than a minute ago.
  await backdateSessions(member.id, "last_seen_at", 2 * minuteMs);
  const lastSeen = await readLastSeen(member.id);
  const body = new TextEncoder().encode(new URLSearchParams(fields).toString().padEnd(64, "&"));
  const { readable, writable } = new FixedLengthStream(body.length);
  const headers = { Cookie: cookie, ...formHeaders, "Content-Length": String(body.length) };
  const ctx = createExecutionContext();
  const request = new Request(origin + path, { method: "POST", headers, body: readable, redirect: "manual" });
  const response = Promise.resolve(app.fetch(request, env, ctx));
  const writer = writable.getWriter();
  await writer.write(body.subarray(0, 10));
  await vi.waitFor(async () => expect(await readLastSeen(member.id)).not.toBe(lastSeen), { timeout: 10_000, interval: 10 });
  return {
    async release() {
      await writer.write(body.subarray(10));
      await writer.close();
      const answer = await answerOf(await response);
      await waitOnExecutionContext(ctx);
      return answer;
    },
  };
}

/** Whether a response redirects to the sign-in page. */
export const redirectsToSignIn = ({ status, headers }: Pick<Answer, "status" | "headers">) =>
  status === 303 && /^\/login/.test(headers.get("Location") ?? "");

/** Adds `count` audit log entries about an action of a member on their own session. */
export const insertOwnAuditEntries = ({ member }: Person, action: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, changes)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?5)
    SELECT ?1, ?2 || printf('%020d', n), 'member', ?3, ?4, 'session', 'ses_1', '[]' FROM counted`,
  )
    .bind(member.accountId, idBound("aud", Date.now()), member.id, action, count)
    .run();
