import { createMiddleware } from "hono/factory";
import { connect } from "../../../db/client.ts";
import { originOf } from "../../../http/client-address.ts";
import { urlOf } from "../../../http/request-url.ts";
import { accessConfig } from "../../../identity/access.ts";
import type { SessionOrigin } from "../../../identity/sessions.ts";
import { Failure, failures } from "../../../lib/errors/failure.ts";
import type { PageContext, PageEnv } from "../../context.ts";
import type { FormError } from "../../forms.ts";

const maxUserAgent = 256;

/** Explains what most people have used, but do not know by this name. */
export const PasskeyHelp = () => (
  <p class="help">
    A passkey replaces a password. Your device keeps it, and asks for your fingerprint, your face or your PIN before it is used.
  </p>
);

export const sessionOrigin = (c: PageContext): SessionOrigin => ({
  ...originOf(c),
  userAgent: c.req.header("User-Agent")?.slice(0, maxUserAgent).toWellFormed() ?? null,
});

export const readContext = (c: PageContext) => ({ db: connect(c.env.DB), now: Date.now() });

/** Responds to the page's script with JSON. If `work` throws a `Failure`, the JSON contains its message. */
export async function respondJson(c: PageContext, work: () => Promise<object>) {
  try {
    return c.json(await work());
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return c.json({ error: error.message }, failures[error.code].status);
  }
}

export const formErrorOf = (error: unknown): FormError => {
  if (error instanceof Failure && (error.code === "forbidden" || error.code === "conflict" || error.code === "invalid_body"))
    return { summary: error.message, fieldErrors: new Map() };
  throw error;
};

/**
 * Responds with 404 if the deployment uses Cloudflare Access. With Cloudflare Access, a setup link alone would let its holder join with
 * another person's email address. Redirects from 127.0.0.1 to localhost, because passkeys need a host name.
 */
export const passkeysOnly = createMiddleware<PageEnv>(async function passkeysOnly(c, next) {
  if (accessConfig(c.env))
    throw new Failure("not_found", "This deployment signs people in with Cloudflare Access. Open the overview instead.");
  const { hostname, port, pathname, search } = urlOf(c);
  if (c.req.method === "GET" && hostname === "127.0.0.1") return c.redirect(`http://localhost:${port}${pathname}${search}`, 302);
  return next();
});
