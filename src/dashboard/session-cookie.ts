import { deleteCookie } from "hono/cookie";
import { urlOf } from "../http/request-url.ts";
import { readSigned, setSigned } from "../http/signed-cookie.ts";
import { isLoopback } from "../net/loopback.ts";
import type { PageContext } from "./context.ts";

const fourteenDays = 14 * 24 * 3600;

/** Browsers take `__Host-` on https alone; a laptop has http, and its own machine only. */
const isPlain = (c: PageContext) => c.get("isLocal") && urlOf(c).protocol === "http:" && isLoopback(urlOf(c).hostname);

const nameOf = (c: PageContext) => (isPlain(c) ? "session" : "__Host-session");

const options = (c: PageContext) => ({ path: "/", httpOnly: true, secure: !isPlain(c), sameSite: "Lax" }) as const;

/** What the cookie of a session holds; undefined where there is none that was made here. */
export const sessionToken = (c: PageContext): Promise<string | undefined> => readSigned(c, nameOf(c));

export const setSession = (c: PageContext, token: string): Promise<void> =>
  setSigned(c, nameOf(c), token, { ...options(c), maxAge: fourteenDays });

export const clearSession = (c: PageContext): void => void deleteCookie(c, nameOf(c), options(c));

/** What Cloudflare Access says of who has come; empty where it says nothing. */
export const accessToken = (c: PageContext): string => c.req.header("Cf-Access-Jwt-Assertion") ?? "";
