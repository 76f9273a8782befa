import { getCookie } from "hono/cookie";
import { createMiddleware } from "hono/factory";
import { listAccounts } from "../../accounts/account.ts";
import { connect } from "../../db/client.ts";
import { framingHosts } from "../../http/portal-hosts.ts";
import { urlOf } from "../../http/request-url.ts";
import { accountOwner, type Owner, strangerOf } from "../../http/share-owner.ts";
import type { Build } from "../../http/surface.ts";
import { type AccessConfig, accessConfig, chosenMembership, listMemberships, verifyAccess } from "../../identity/access.ts";
import { listReceivedInvitations } from "../../identity/join.ts";
import { readSession, touchSession } from "../../identity/sessions.ts";
import { isLoopback } from "../../lib/net/loopback.ts";
import type { PageContext, PageEnv, Visitor } from "../context.ts";
import { closedPage, endedFramePage, noAccountPage, uninvitedPage } from "../pages/error/closed.tsx";
import { pathWithin } from "../preferences.ts";
import { accessToken, isInFrame, portalToken, sessionToken } from "./session-cookie.ts";

/**
 * Returns whether a request uses a loopback host and comes from the address bar or from a page of the same origin. The origin check stops
 * DNS rebinding: an attack in which a foreign page points its own host name at this machine. During DNS rebinding, the foreign page can
 * send a header that makes the local runtime report a loopback host. A page cannot set `Sec-Fetch-Site`, because only the browser sets this
 * header. During DNS rebinding, browsers do not send `Sec-Fetch-Site`, because the foreign host name is not localhost.
 */
export function isAtThisMachine(c: PageContext): boolean {
  const site = c.req.header("Sec-Fetch-Site");
  return isLoopback(urlOf(c).hostname) && (site === "none" || site === "same-origin");
}

/** Returns the path of the page with the submitted form. Returns `/` if the browser does not report a page of this site. */
function pageBefore(c: PageContext): string {
  const referrer = c.req.header("Referer") ?? "";
  const url = URL.canParse(referrer) ? new URL(referrer) : null;
  return url?.host === urlOf(c).host ? pathWithin(url.pathname + url.search) : "/";
}

/** The visitor of a page, or a function that creates the response to send instead of the page. */
type Found = { visitor: Visitor } | { instead: () => Response | Promise<Response> };

/**
 * Returns the member who signed in with Cloudflare Access, and the account that the member chose. To join an account, a visitor must press
 * a button on the `/access` page.
 */
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
  const isInvited = memberships.length > 0 || (await listReceivedInvitations(db, email, now)).length > 0;
  return { instead: () => (isInvited ? sendTo(c, "/access") : uninvitedPage(c)) };
}

/**
 * Returns the member who came by a portal link, or null. A frame has no other visitor than such a member. Its page may be framed by the team's
 * origins alone.
 */
async function visitorByPortal(c: PageContext): Promise<Found | null> {
  const db = connect(c.env.DB);
  const now = Date.now();
  const token = await portalToken(c);
  const signedIn = token === undefined ? null : await readSession(db, token, now);
  const returnUrl = signedIn?.session.returnUrl ?? null;
  if (!signedIn || returnUrl === null || signedIn.session.isFramed !== isInFrame(c))
    return isInFrame(c) ? { instead: () => endedFramePage(c) } : null;
  if (isInFrame(c)) c.set("framedBy", framingHosts(returnUrl, c.get("isLocal")));
  c.executionCtx.waitUntil(touchSession(db, signedIn.session, now));
  return { visitor: { account: signedIn.account, accounts: [signedIn.account], signedIn } };
}

/**
 * Returns the visitor of a page. An open overview (`isOpen`) accepts anyone on this machine as a visitor. Otherwise, the visitor is the
 * signed-in member. If there is no visitor, returns the response to send instead of the page.
 */
async function findVisitor(c: PageContext, isOpen: boolean): Promise<Found> {
  const db = connect(c.env.DB);
  const byPortal = await visitorByPortal(c);
  if (byPortal) return byPortal;
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
  if (!signedIn || signedIn.session.returnUrl !== null) return { instead: () => sendTo(c, "/login") };
  c.executionCtx.waitUntil(touchSession(db, signedIn.session, now));
  return { visitor: { account: signedIn.account, accounts: [signedIn.account], signedIn } };
}

/** Redirects a visitor to the page for signing in or for choosing an account. `return_to` contains the page to open afterwards. */
function sendTo(c: PageContext, page: "/login" | "/access"): Response {
  const { pathname, search } = urlOf(c);
  if (c.req.method === "GET" || c.req.method === "HEAD")
    return c.redirect(`${page}?return_to=${encodeURIComponent(pathname + search)}`, 303);
  // `unsent=1` makes the next page say that the submitted form was not processed. `return_to` contains the page with the form.
  return c.redirect(`${page}?return_to=${encodeURIComponent(pageBefore(c))}&unsent=1`, 303);
}

/** Loads the visitor of a page. If there is no visitor, returns the response to send instead of the page. */
export async function requireSession(c: PageContext, { isOpen }: Pick<Build, "isOpen">): Promise<Response | null> {
  const found = await findVisitor(c, isOpen);
  if ("instead" in found) return found.instead();
  c.set("visitor", found.visitor);
  return null;
}

/** Returns the visitor of a page, or null if there is none or the storage fails. */
export async function readVisitor(c: PageContext, { isOpen }: Pick<Build, "isOpen">): Promise<Visitor | null> {
  const found = await findVisitor(c, isOpen).catch(() => null);
  return found && "visitor" in found ? found.visitor : null;
}

/** Loads the visitor of a page, if there is one. If the storage fails, the page has no visitor. */
export async function loadSession(c: PageContext, build: Pick<Build, "isOpen">): Promise<void> {
  const visitor = await readVisitor(c, build);
  if (visitor) c.set("visitor", visitor);
}

/** Returns in whose share a page runs: that of the visitor's account, or that of the network of an anonymous client. */
export function shareOwner(c: PageContext): Owner {
  const visitor = c.get("visitor") as Visitor | undefined;
  return visitor ? accountOwner(visitor.account.id) : strangerOf(c);
}

/** Loads the visitor of a page that needs none. */
export const loadVisitor = (build: Pick<Build, "isOpen">) =>
  createMiddleware<PageEnv>(async function loadVisitor(c, next) {
    await loadSession(c, build);
    return next();
  });

/** Redirects a visitor who is already signed in from the sign-in page to the page in `return_to`. */
export const leaveIfSignedIn = (build: Pick<Build, "isOpen">) =>
  createMiddleware<PageEnv>(async function leaveIfSignedIn(c, next) {
    await loadSession(c, build);
    return c.get("visitor") ? c.redirect(pathWithin(c.req.query("return_to") ?? "/"), 303) : next();
  });
