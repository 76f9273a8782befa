import { createMiddleware } from "hono/factory";
import { matchedRoutes } from "hono/route";
import { Failure } from "../errors/failure.ts";
import type { AppContext } from "../http/context.ts";
import { withShare } from "../http/cpu-share.ts";
import type { Build } from "../http/surface.ts";
import type { PageContext, PageEnv } from "./context.ts";
import { type Access, declaredBy } from "./needs.ts";
import { requirePermission } from "./permissions.tsx";
import { cpuOwner, loadSession, requireSession } from "./session.ts";
import { askForStepUp } from "./step-up.tsx";

/** Returns the access that the matched route declares. Returns undefined if no route matches or if the route declares no access. */
function accessOf(c: AppContext): Access | undefined {
  // Middleware is registered for all methods. An access declaration is registered for one method, before the route's handler. The first
  // match with a specific method is therefore the declaration of the matched route.
  return declaredBy(matchedRoutes(c).find(({ method }) => method !== "ALL")?.handler);
}

/**
 * Enforces the access that a route declares: session, permission and step-up. Then runs the route in its account's share of the CPU. Throws `not_found`
 * for a route without a declaration.
 */
export const requireAccess = (build: Pick<Build, "isOpen">) =>
  createMiddleware<PageEnv>(async function requireAccess(c, next) {
    const access = accessOf(c as unknown as AppContext);
    if (access === undefined) {
      // Load the session, so that signed-in members also see the navigation on the error page.
      await loadSession(c, build);
      throw new Failure("not_found", "There is nothing at this path.");
    }
    return (access.needs === "public" ? null : await denial(c, access, build)) ?? withShare(c as unknown as AppContext, cpuOwner(c), next);
  });

/**
 * Returns null if the route may handle the request. Otherwise, returns the response that replaces the page. Throws `account_suspended` for
 * a change in a suspended account.
 */
async function denial(c: PageContext, { needs, stepUp }: Access, build: Pick<Build, "isOpen">): Promise<Response | null> {
  const instead = await requireSession(c, build);
  if (instead !== null || needs === "any session") return instead;
  const forbidden = await requirePermission(c, needs === "public" || needs === "session" ? null : needs);
  return forbidden ?? (stepUp === "always" ? askForStepUp(c) : null);
}
