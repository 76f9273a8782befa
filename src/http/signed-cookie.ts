import type { Context } from "hono";
import { deleteCookie, getCookie, getSignedCookie, setSignedCookie } from "hono/cookie";
import { isLoopback } from "../lib/net/loopback.ts";
import { secondMs } from "../lib/time/clock.ts";
import { encryptionSecrets } from "../webhooks/subscriptions/encryption.ts";
import { urlOf } from "./request-url.ts";

// Session cookies are signed, so the Worker denies a forged cookie without a database query. The signature does not prove that the session
// is still valid. Only the session's row in D1 proves that.

/**
 * Returns the secrets that sign and verify cookies. The first secret signs new cookies. A cookie is valid if any of the secrets signed it.
 */
export const cookieSecrets = (env: object): string[] => encryptionSecrets(env).map(({ secret }) => `cookies ${secret}`);

/**
 * A session cookie. `name`: without the prefix `__Host-`. `None` is for a frame in a page of another site: the browser keeps the cookie apart for
 * each site that has such a frame (CHIPS).
 */
interface SessionCookie {
  name: string;
  sameSite: "Lax" | "Strict" | "None";
}

/**
 * Returns whether a local build received the request over plain HTTP on a loopback host. The cookie then has no `__Host-` prefix, because
 * browsers accept `__Host-` cookies only over HTTPS.
 */
const isPlain = (c: Context): boolean => c.get("isLocal") && urlOf(c).protocol === "http:" && isLoopback(urlOf(c).hostname);

const nameOf = (c: Context, { name }: SessionCookie) => (isPlain(c) ? name : `__Host-${name}`);

const optionsOf = (c: Context, { sameSite }: SessionCookie) =>
  sameSite === "None"
    ? ({ path: "/", httpOnly: true, secure: true, sameSite, partitioned: true } as const)
    : { path: "/", httpOnly: true, secure: !isPlain(c), sameSite };

/** Returns the value of a session cookie. Returns undefined if the cookie is absent or its signature is invalid. */
export async function readSigned(c: Context, cookie: SessionCookie): Promise<string | undefined> {
  const name = nameOf(c, cookie);
  if (getCookie(c, name) === undefined) return undefined;
  for (const secret of cookieSecrets(c.env)) {
    const value = await getSignedCookie(c, secret, name);
    if (value) return value;
  }
  return undefined;
}

export const setSigned = (c: Context, cookie: SessionCookie, value: string, maxAgeMs: number): Promise<void> =>
  setSignedCookie(c, nameOf(c, cookie), value, cookieSecrets(c.env)[0] ?? "", { ...optionsOf(c, cookie), maxAge: maxAgeMs / secondMs });

export const deleteSigned = (c: Context, cookie: SessionCookie): void => void deleteCookie(c, nameOf(c, cookie), optionsOf(c, cookie));
