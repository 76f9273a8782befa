import { createMiddleware } from "hono/factory";
import { matchedRoutes } from "hono/route";
import { Failure } from "../errors/failure.ts";
import type { AppContext } from "../http/context.ts";
import type { Build } from "../http/surface.ts";
import type { PageContext, PageEnv } from "./context.ts";
import { type Access, declaredBy } from "./needs.ts";
import { requirePermission } from "./permissions.tsx";
import { loadSession, requireSession } from "./session.ts";
import { askForStepUp } from "./step-up.tsx";

/** Returns what the route declares that will handle the request; undefined if there is no such route, or it declares nothing. */
function accessOf(c: AppContext): Access | undefined {
  // Middleware is registered for all methods. The first route with a method of its own handles the request, and begins with its declaration.
  return declaredBy(matchedRoutes(c).find(({ method }) => method !== "ALL")?.handler);
}

/** Checks what the route of a request declares: the session, the permission and the recent sign-in. A route that declares nothing is not found. */
export const requireAccess = (build: Pick<Build, "isOpen">) =>
  createMiddleware<PageEnv>(async function requireAccess(c, next) {
    const access = accessOf(c as unknown as AppContext);
    if (access === undefined) {
      // Somebody who has signed in keeps the navigation.
      await loadSession(c, build);
      throw new Failure("not_found", "There is nothing at this path.");
    }
    return (access.needs === "public" ? null : await denial(c, access, build)) ?? next();
  });

/** Returns the response in place of the page; null if the route may handle the request. Throws `account_suspended`. */
async function denial(c: PageContext, { needs, stepUp }: Access, build: Pick<Build, "isOpen">): Promise<Response | null> {
  const instead =
    (await requireSession(c, build)) ?? (await requirePermission(c, needs === "public" || needs === "session" ? null : needs));
  return instead ?? (stepUp === "always" ? askForStepUp(c) : null);
}
