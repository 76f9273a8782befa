import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { generateSignedCookie } from "hono/cookie";
import { createApp } from "../../../src/app.ts";
import { cookieSecrets } from "../../../src/http/signed-cookie.ts";
import { makeSetup } from "../../../src/identity/invitations.ts";
import { claim } from "../../../src/identity/join.ts";
import type { Member } from "../../../src/identity/member.ts";
import type { Role } from "../../../src/identity/roles.ts";
import { idBound } from "../../../src/ids/ids.ts";
import { minuteMs } from "../../../src/time/clock.ts";
import { type Answer, answerOf, db, origin } from "./client.ts";

// Members, made by the code that the pages use but for the passkey itself, for which it takes a browser (test/browser/sign-in.test.ts),
// on a Worker whose overview is closed.

const app = createApp({ isLocal: true, isOpen: false });

export interface Person {
  member: Member;
  codes: string[];
  cookie: string;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(
    path: string,
    fields?: Record<string, string | readonly string[]>,
    headers?: Record<string, string>,
    bindings?: Env,
  ): Promise<Answer>;
}

/** One request to the closed overview. */
export async function ask(
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

/** Asks with a cookie, as a browser would. */
export function withCookie(cookie: string): Pick<Person, "get" | "post"> {
  return {
    get: (path, headers = {}) => ask("GET", path, { Cookie: cookie, ...headers }),
    post(path, fields = {}, headers = {}, bindings = env) {
      const body = new URLSearchParams();
      for (const [name, value] of Object.entries(fields)) for (const each of [value].flat()) body.append(name, each);
      return ask("POST", path, { Cookie: cookie, ...form, ...headers }, body.toString(), bindings);
    },
  };
}

/** The cookie of a session, as a browser sends it. */
export async function sessionCookie(token: string): Promise<string> {
  const [set = ""] = (await generateSignedCookie("session", token, cookieSecrets(env)[0] ?? "")).split(";");
  return set;
}

/** The token of the session that a cookie holds. */
export const tokenIn = (cookie: string): string => /=([\w-]{43})\./.exec(cookie)?.[1] ?? "";

const from = { ip: "203.0.113.7", country: "NO", userAgent: "A browser" };

/** A member with a role, who has just joined. */
export async function makePerson(accountId: string, role: Role = "owner"): Promise<Person> {
  const now = Date.now();
  const setup = await makeSetup({ db, now }, accountId);
  await env.DB.prepare("UPDATE invitations SET role = ? WHERE account_id = ? AND used_by IS NULL").bind(role, accountId).run();
  const id = crypto.randomUUID();
  const claimed = await claim({ db }, now, {
    token: setup,
    person: { name: `${role} ${id.slice(0, 4)}`, email: `${id}@example.com` },
    passkey: { id, name: "A passkey", publicKey: "", counter: 0, transports: [] },
    from,
  });
  const cookie = await sessionCookie(claimed.token);
  return { member: claimed.member, codes: claimed.codes, cookie, ...withCookie(cookie) };
}

export interface HeldForm {
  /** Sends what is left of the form. */
  release(): Promise<Answer>;
}

/** Sends half of a form with a session, and waits until the visitor was let in by it: what is done by then was prepared before. */
export async function holdForm({ member, cookie }: Person, path: string, fields: Record<string, string>): Promise<HeldForm> {
  await age(member, "last_seen_at", 2 * minuteMs);
  const seen = () => env.DB.prepare("SELECT max(last_seen_at) AS at FROM sessions WHERE member_id = ?").bind(member.id).first<number>("at");
  const before = await seen();
  const body = new TextEncoder().encode(new URLSearchParams(fields).toString().padEnd(64, "&"));
  const { readable, writable } = new FixedLengthStream(body.length);
  const headers = {
    Cookie: cookie,
    Origin: origin,
    "Content-Type": "application/x-www-form-urlencoded",
    "Content-Length": String(body.length),
  };
  const ctx = createExecutionContext();
  const request = new Request(origin + path, { method: "POST", headers, body: readable, redirect: "manual" });
  const response = Promise.resolve(app.fetch(request, env, ctx));
  const writer = writable.getWriter();
  await writer.write(body.subarray(0, 10));
  while ((await seen()) === before) await new Promise((resolve) => setTimeout(resolve, 10));
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

/** Makes it some time since a member last showed who they are. */
export const age = (member: Member, column: "verified_at" | "last_seen_at" | "created_at", ms: number) =>
  env.DB.prepare(`UPDATE sessions SET ${column} = ${column} - ? WHERE member_id = ?`).bind(ms, member.id).run();

/** The headers of a form that a page of ours sends. */
export const form = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };

/** Whether a response leads to the sign-in. */
export const isOut = ({ status, headers }: { status: number; headers: Headers }) =>
  status === 303 && /^\/login/.test(headers.get("Location") ?? "");

/** Puts entries about a member's own sign-in into the audit log. */
export const storeOwn = ({ member }: Person, action: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, changes)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?5)
    SELECT ?1, ?2 || printf('%020d', n), 'member', ?3, ?4, 'session', 'ses_1', '[]' FROM counted`,
  )
    .bind(member.accountId, idBound("aud", Date.now()), member.id, action, count)
    .run();
