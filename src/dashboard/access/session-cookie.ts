import { deleteSigned, readSigned, setSigned } from "../../http/signed-cookie.ts";
import { maxSessionMs } from "../../identity/sessions.ts";
import type { PageContext } from "../context.ts";

const cookie = { name: "session", sameSite: "Lax" } as const;

/** Returns the session token in the cookie. Returns undefined if the cookie is missing or its signature is invalid. */
export const sessionToken = (c: PageContext): Promise<string | undefined> => readSigned(c, cookie);

export const setSession = (c: PageContext, token: string): Promise<void> => setSigned(c, cookie, token, maxSessionMs);

export const clearSession = (c: PageContext): void => deleteSigned(c, cookie);

/** Returns whether a request has what a signed-in member sends. Reads nothing from the storage. */
export const mayBeSignedIn = async (c: PageContext): Promise<boolean> => accessToken(c) !== "" || (await sessionToken(c)) !== undefined;

/** Returns the token that Cloudflare Access sent for the visitor, or an empty string if the header is missing. */
export const accessToken = (c: PageContext): string => c.req.header("Cf-Access-Jwt-Assertion") ?? "";
