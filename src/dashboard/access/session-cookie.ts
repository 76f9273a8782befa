import { deleteSigned, readSigned, setSigned } from "../../http/signed-cookie.ts";
import { maxPortalSessionMs, maxSessionMs } from "../../identity/sessions.ts";
import type { PageContext } from "../context.ts";

const cookie = { name: "session", sameSite: "Lax" } as const;
const portalCookie = { name: "portal", sameSite: "Lax" } as const;
const frameCookie = { name: "portal-frame", sameSite: "None" } as const;
const portalCookieOf = (isFramed: boolean) => (isFramed ? frameCookie : portalCookie);

/** The header of a request that the script of a page in a frame sends. */
const frameHeader = "Overview-Frame";

/**
 * Returns whether a page in a frame, or its script, sent a request. The session of a frame is one of its own: if the team's page is of the same
 * site, a frame also sends the cookies of tabs.
 */
export const isInFrame = (c: PageContext): boolean => c.req.header("Sec-Fetch-Dest") === "iframe" || c.req.header(frameHeader) === "1";

/** Returns the session token in the cookie. Returns undefined if the cookie is missing or its signature is invalid. */
export const sessionToken = (c: PageContext): Promise<string | undefined> => readSigned(c, cookie);

/** Returns the token of a portal session, in the same way. */
export const portalToken = (c: PageContext): Promise<string | undefined> => readSigned(c, portalCookieOf(isInFrame(c)));

export async function setSession(c: PageContext, token: string): Promise<void> {
  if ((await readSigned(c, portalCookie)) !== undefined) deleteSigned(c, portalCookie);
  await setSigned(c, cookie, token, maxSessionMs);
}

export const setPortalSession = (c: PageContext, token: string): Promise<void> =>
  setSigned(c, portalCookieOf(isInFrame(c)), token, maxPortalSessionMs);

export const clearSession = (c: PageContext): void => deleteSigned(c, cookie);
export const clearPortalSession = (c: PageContext): void => deleteSigned(c, portalCookieOf(isInFrame(c)));

/** Returns whether a request has what a signed-in member sends. Reads nothing from the storage. */
export const mayBeSignedIn = async (c: PageContext): Promise<boolean> =>
  accessToken(c) !== "" || (await sessionToken(c)) !== undefined || (await portalToken(c)) !== undefined;

/** Returns the token that Cloudflare Access sent for the visitor, or an empty string if the header is missing. */
export const accessToken = (c: PageContext): string => c.req.header("Cf-Access-Jwt-Assertion") ?? "";
