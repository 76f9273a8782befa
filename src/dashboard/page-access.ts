import { createMiddleware } from "hono/factory";
import { matchedRoutes } from "hono/route";
import { Failure } from "../errors/failure.ts";
import type { AppContext } from "../http/context.ts";
import type { Permission } from "../identity/roles.ts";
import type { PageEnv } from "./context.ts";

/** What a route of the dashboard requires before its handler runs. */
export interface PageAccess {
  /** "public": nothing. "session": any member. Otherwise a member whose role has this permission. */
  needs: "public" | "session" | Permission;
  /**
   * A recent sign-in. "always": checked before the handler. "sometimes": the handler decides by what the form changes, and calls
   * `askForStepUp`.
   */
  stepUp?: "always" | "sometimes";
}

const open: PageAccess = { needs: "public" };
const anyMember: PageAccess = { needs: "session" };
const keys: PageAccess = { needs: "keys" };
const webhooks: PageAccess = { needs: "webhooks" };
const audit: PageAccess = { needs: "audit" };
const account: PageAccess = { needs: "account" };
const withStepUp = (access: PageAccess): PageAccess => ({ ...access, stepUp: "always" });
const withStepUpSometimes = (access: PageAccess): PageAccess => ({ ...access, stepUp: "sometimes" });
const people = withStepUp({ needs: "people" });
/** The handler checks that passkeys and codes are the visitor's own. */
const ownSignIn = withStepUp(anyMember);

/** The access of every route of the dashboard, by method and path. A route without a line here is denied. */
const accessByRoute: Readonly<Record<string, PageAccess>> = {
  // Middleware: passkeys need a host name, and no Cloudflare Access.
  "ALL /login/*": open,
  "ALL /setup/*": open,
  "GET /login": open,
  "POST /login": open,
  "POST /login/options": open,
  "GET /login/recovery": open,
  "POST /login/recovery": open,
  "GET /setup": open,
  "POST /setup": open,
  "POST /setup/check": open,
  "POST /setup/options": open,
  // For people whom Cloudflare Access let through, members or not yet.
  "GET /access": open,
  "POST /access/join": open,
  "POST /access/account": open,
  "POST /preferences": open,
  "POST /confirm/options": anyMember,
  "POST /logout": anyMember,

  "GET /": anyMember,
  "GET /search": anyMember,
  "GET /usage": anyMember,
  "GET /usage.csv": anyMember,
  "GET /activity": anyMember,
  "GET /activity.csv": anyMember,
  "GET /activity/news": anyMember,
  "GET /activity/:id": anyMember,

  "GET /keys": anyMember,
  "GET /keys/new": keys,
  "POST /keys": withStepUp(keys),
  "GET /keys/:id": anyMember,
  "GET /keys/:id/first-request": anyMember,
  // If the change lets the key do more.
  "POST /keys/:id": withStepUpSometimes(keys),
  // A leaked key must be easy to stop.
  "POST /keys/:id/disable": keys,
  "POST /keys/:id/enable": withStepUp(keys),
  "POST /keys/:id/end-overlap": withStepUp(keys),
  "GET /keys/:id/rotate": keys,
  "POST /keys/:id/rotate": withStepUp(keys),
  "GET /keys/:id/revoke": keys,
  "POST /keys/:id/revoke": withStepUp(keys),

  "GET /webhooks": anyMember,
  "GET /webhooks/new": webhooks,
  "POST /webhooks": withStepUp(webhooks),
  "GET /webhooks/:id": anyMember,
  // If the URL or the event types change.
  "POST /webhooks/:id": withStepUpSometimes(webhooks),
  "POST /webhooks/:id/disable": webhooks,
  "POST /webhooks/:id/enable": withStepUp(webhooks),
  "POST /webhooks/:id/test": webhooks,
  "GET /webhooks/:id/rotate-secret": webhooks,
  "POST /webhooks/:id/rotate-secret": withStepUp(webhooks),
  "GET /webhooks/:id/delete": webhooks,
  "POST /webhooks/:id/delete": withStepUp(webhooks),
  "GET /webhooks/:id/redeliver": webhooks,
  "POST /webhooks/:id/redeliver": withStepUp(webhooks),
  "GET /deliveries/:id": anyMember,
  "POST /deliveries/:id/redeliver": withStepUp(webhooks),
  "POST /deliveries/:id/attempt": webhooks,

  "GET /settings": anyMember,
  "GET /settings/audit": audit,
  "GET /settings/audit.csv": audit,
  "POST /settings/invitations": people,
  "POST /settings/invitations/:id/withdraw": people,
  "GET /settings/people/:id/remove": { needs: "people" },
  "POST /settings/people/:id/remove": people,
  "POST /settings/people/:id/role": people,
  // If the session belongs to another member.
  "POST /settings/sessions/:id/end": withStepUpSometimes(anyMember),
  "POST /settings/passkeys": ownSignIn,
  "POST /settings/passkeys/options": ownSignIn,
  "POST /settings/passkeys/:id/remove": ownSignIn,
  "POST /settings/recovery-codes": ownSignIn,
  "GET /settings/sample-data": anyMember,
  // It revokes the sample keys.
  "POST /settings/sample-data": withStepUp(account),
};

/** Returns the declared access of a route, written as "GET /keys/:id"; undefined if it has none. */
export const declaredAccess = (route: string): PageAccess | undefined =>
  Object.hasOwn(accessByRoute, route) ? accessByRoute[route] : undefined;

/** Returns the declared access of the route that will handle the request; undefined if there is no such route, or it declares nothing. */
export function accessOf(c: Pick<AppContext, "req">): PageAccess | undefined {
  // Middleware is registered for all methods. The first route with a method of its own handles the request.
  const route = matchedRoutes(c as AppContext).find(({ method }) => method !== "ALL");
  return route && declaredAccess(`${route.method} ${route.path}`);
}

/** Denies every request whose route declares no access, as if there were no such route. */
export const requireDeclaredAccess = createMiddleware<PageEnv>(async function requireDeclaredAccess(c, next) {
  if (accessOf(c) === undefined) throw new Failure("not_found", "There is nothing at this path.");
  return next();
});
