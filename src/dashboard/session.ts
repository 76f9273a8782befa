import { getCookie } from "hono/cookie";
import { createMiddleware } from "hono/factory";
import { listAccounts } from "../accounts/account.ts";
import { connect } from "../db/client.ts";
import { urlOf } from "../http/request-url.ts";
import type { Build } from "../http/surface.ts";
import { type AccessConfig, accessConfig, chosenMembership, listMemberships, verifyAccess } from "../identity/access.ts";
import { listOffers } from "../identity/join.ts";
import { readSession, touchSession } from "../identity/sessions.ts";
import { isLoopback } from "../net/loopback.ts";
import type { PageContext, PageEnv, Visitor } from "./context.ts";
import { closedPage, noAccountPage, uninvitedPage } from "./pages/closed.tsx";
import { pathWithin } from "./preferences.ts";
import { accessToken, sessionToken } from "./session-cookie.ts";

/**
 * Under a loopback name, and asked for by the browser's address bar or by a page of the same origin. A page of elsewhere that points its
 * own name here (DNS rebinding) can make the local runtime believe in another host, by a header. It cannot set `Sec-Fetch-Site`, which a
 * browser sends to localhost and not to such a name.
 */
export function isAtThisMachine(c: PageContext): boolean {
  const site = c.req.header("Sec-Fetch-Site");
  return isLoopback(urlOf(c).hostname) && (site === "none" || site === "same-origin");
}

/** The page of ours that a form was on; the overview where the browser does not say. */
function pageBefore(c: PageContext): string {
  const referrer = c.req.header("Referer") ?? "";
  const url = URL.canParse(referrer) ? new URL(referrer) : null;
  return url?.host === urlOf(c).host ? pathWithin(url.pathname + url.search) : "/";
}

/** A visitor, or what is answered in place of the page. */
type Found = { visitor: Visitor } | { instead: () => Response | Promise<Response> };

/** The member who passed Cloudflare Access, in the account that they chose. To join an account, a visitor must press a button. */
async function visitorByAccess(c: PageContext, access: AccessConfig): Promise<Found> {
  const db = connect(c.env.DB);
  const now = Date.now();
  const { email, issuedAt } = await verifyAccess(access, accessToken(c), now);
  const memberships = await listMemberships(db, email);
  const chosen = chosenMembership(memberships, getCookie(c, "account"));
  if (chosen) {
    const accounts = memberships.map(({ account }) => account);
    return { visitor: { account: chosen.account, accounts, signedIn: { ...chosen, session: null, verifiedAt: issuedAt } } };
  }
  const isInvited = memberships.length > 0 || (await listOffers(db, email, now)).length > 0;
  return { instead: () => (isInvited ? sendTo(c, "/access") : uninvitedPage(c)) };
}

/**
 * Returns who views a page, and whose account: the member who signed in or, if it `isOpen`, anyone at the machine. Otherwise returns the
 * response that replaces the page.
 */
async function findVisitor(c: PageContext, isOpen: boolean): Promise<Found> {
  const db = connect(c.env.DB);
  if (isOpen) {
    if (!isAtThisMachine(c)) return { instead: () => closedPage(c) };
    const accounts = await listAccounts(db);
    const wanted = c.req.query("account") ?? getCookie(c, "account");
    const account = accounts.find(({ id }) => id === wanted) ?? accounts[0];
    return account ? { visitor: { account, accounts, signedIn: null } } : { instead: () => noAccountPage(c) };
  }
  const access = accessConfig(c.env);
  if (access) return visitorByAccess(c, access);
  const now = Date.now();
  const token = await sessionToken(c);
  const signedIn = token === undefined ? null : await readSession(db, token, now);
  if (!signedIn) return { instead: () => sendTo(c, "/login") };
  c.executionCtx.waitUntil(touchSession(db, signedIn.session, now));
  return { visitor: { account: signedIn.account, accounts: [signedIn.account], signedIn } };
}

/** Sends a visitor to sign in, or to choose an account, and from there back to the page. */
function sendTo(c: PageContext, page: "/login" | "/access"): Response {
  const { pathname, search } = urlOf(c);
  if (c.req.method === "GET" || c.req.method === "HEAD")
    return c.redirect(`${page}?return_to=${encodeURIComponent(pathname + search)}`, 303);
  // A form that was sent too late did nothing: that is said, and the page that it was on is come back to.
  return c.redirect(`${page}?return_to=${encodeURIComponent(pageBefore(c))}&unsent=1`, 303);
}

/** Loads who looks at a page. Returns the response in place of the page where nobody may. */
export async function requireSession(c: PageContext, { isOpen }: Pick<Build, "isOpen">): Promise<Response | null> {
  const found = await findVisitor(c, isOpen);
  if ("instead" in found) return found.instead();
  c.set("visitor", found.visitor);
  return null;
}

/** Loads who looks at a page, where it is somebody. Storage that fails is nobody. */
export async function loadSession(c: PageContext, { isOpen }: Pick<Build, "isOpen">): Promise<void> {
  const found = await findVisitor(c, isOpen).catch(() => null);
  if (found && "visitor" in found) c.set("visitor", found.visitor);
}

/** Sends somebody who has signed in already from the sign-in page to where they want to go. */
export const leaveIfSignedIn = (build: Pick<Build, "isOpen">) =>
  createMiddleware<PageEnv>(async function leaveIfSignedIn(c, next) {
    await loadSession(c, build);
    return c.get("visitor") ? c.redirect(pathWithin(c.req.query("return_to") ?? "/"), 303) : next();
  });
