import type { Context } from "hono";
import { getCookie, getSignedCookie, setSignedCookie } from "hono/cookie";
import type { CookieOptions } from "hono/utils/cookie";
import { encryptionSecrets } from "../webhooks/encryption.ts";

// The cookies of sessions are signed: a made-up one is refused without a query. D1 decides whether a session is valid.

/** What signs cookies: the first signs new ones, all of them verify. */
export const cookieSecrets = (env: object): string[] => encryptionSecrets(env).map(({ secret }) => `cookies ${secret}`);

/** What a cookie holds; undefined where there is none, or none that was signed here. */
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
