import type { Context } from "hono";
import { getCookie, getSignedCookie, setSignedCookie } from "hono/cookie";
import type { CookieOptions } from "hono/utils/cookie";
import { encryptionSecrets } from "../webhooks/subscriptions/encryption.ts";

// Session cookies are signed, so the Worker denies a forged cookie without a database query. The signature does not prove that the session
// is still valid. Only the session's row in D1 proves that.

/**
 * Returns the secrets that sign and verify cookies. The first secret signs new cookies. A cookie is valid if any of the secrets signed it.
 */
export const cookieSecrets = (env: object): string[] => encryptionSecrets(env).map(({ secret }) => `cookies ${secret}`);

/** Returns the value of a signed cookie. Returns undefined if the cookie is absent or its signature is invalid. */
export async function readSigned<E extends { Bindings: Env }>(c: Context<E>, name: string): Promise<string | undefined> {
  if (getCookie(c, name) === undefined) return undefined;
  for (const secret of cookieSecrets(c.env)) {
    const value = await getSignedCookie(c, secret, name);
    if (value) return value;
  }
  return undefined;
}

export const setSigned = <E extends { Bindings: Env }>(c: Context<E>, name: string, value: string, options: CookieOptions): Promise<void> =>
  setSignedCookie(c, name, value, cookieSecrets(c.env)[0] ?? "", options);
