import { deleteCookie } from "hono/cookie";
import { urlOf } from "../../http/request-url.ts";
import { readSigned, setSigned } from "../../http/signed-cookie.ts";
import { maxSessionMs } from "../../identity/sessions.ts";
import { isLoopback } from "../../lib/net/loopback.ts";
import { secondMs } from "../../lib/time/clock.ts";
import type { PageContext } from "../context.ts";

/**
 * Returns whether a local build received the request over plain HTTP on a loopback host. The cookie then has no `__Host-` prefix, because
 * browsers accept `__Host-` cookies only over HTTPS.
 */
const isPlain = (c: PageContext) => c.get("isLocal") && urlOf(c).protocol === "http:" && isLoopback(urlOf(c).hostname);

const nameOf = (c: PageContext) => (isPlain(c) ? "session" : "__Host-session");

const options = (c: PageContext) => ({ path: "/", httpOnly: true, secure: !isPlain(c), sameSite: "Lax" }) as const;

/** Returns the session token in the cookie. Returns undefined if the cookie is missing or its signature is invalid. */
export const sessionToken = (c: PageContext): Promise<string | undefined> => readSigned(c, nameOf(c));

export const setSession = (c: PageContext, token: string): Promise<void> =>
  setSigned(c, nameOf(c), token, { ...options(c), maxAge: maxSessionMs / secondMs });

export const clearSession = (c: PageContext): void => void deleteCookie(c, nameOf(c), options(c));

/** Returns whether a request has what a signed-in member sends. Reads nothing from the storage. */
export const mayBeSignedIn = async (c: PageContext): Promise<boolean> => accessToken(c) !== "" || (await sessionToken(c)) !== undefined;

/** Returns the token that Cloudflare Access sent for the visitor, or an empty string if the header is missing. */
export const accessToken = (c: PageContext): string => c.req.header("Cf-Access-Jwt-Assertion") ?? "";
