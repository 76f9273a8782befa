import { createMiddleware } from "hono/factory";
import { matchedRoutes } from "hono/route";
import type { AppContext } from "../../http/context.ts";
import { withShare } from "../../http/cpu-share.ts";
import { receiveForm } from "../../http/form-limit.ts";
import type { Build } from "../../http/surface.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { type PageContext, type PageEnv, returnUrlOf } from "../context.ts";
import { type Access, declaredBy } from "./needs.ts";
import { requirePermission } from "./permissions.tsx";
import { loadSession, requireSession, shareOwner } from "./session.ts";
import { askForStepUp } from "./step-up.tsx";

/** Returns the access that the matched route declares. Returns undefined if no route matches or if the route declares no access. */
function accessOf(c: AppContext): Access | undefined {
  // Middleware is registered for all methods. An access declaration is registered for one method, before the route's handler. The first
  // match with a specific method is therefore the declaration of the matched route.
  return declaredBy(matchedRoutes(c).find(({ method }) => method !== "ALL")?.handler);
}

/**
 * Enforces the session that a route declares. Throws `not_found` for a route without a declaration, and `account_suspended` for a change in a suspended account.
 */
const requireDeclaredSession = (build: Pick<Build, "isOpen">) =>
  createMiddleware<PageEnv>(async function requireDeclaredSession(c, next) {
    const access = accessOf(c as unknown as AppContext);
    if (access === undefined) {
      // Load the session, so that signed-in members also see the navigation on the error page.
      await loadSession(c, build);
      throw new Failure("not_found", "There is nothing at this path.");
    }
    if (access.needs !== "public") return (await requireSession(c, build)) ?? next();
    await loadSession(c, build);
    return next();
  });

/** Enforces the permission and the step-up that a route declares. Then runs the route in its account's share of the CPU. */
const requireDeclaredPermission = createMiddleware<PageEnv>(async function requireDeclaredPermission(c, next) {
  const { needs, stepUp } = accessOf(c as unknown as AppContext) as Access;
  const run = () => withShare(c as unknown as AppContext, shareOwner(c), next);
  if (needs === "public" || needs === "any session") return run();
  if (needs === "own sign-in" && returnUrlOf(c.get("visitor")) !== null)
    throw new Failure(
      "forbidden",
      "You came here from another app, which decides how you sign in. Only members with a passkey can change their sign-in.",
    );
  const forbidden = await requirePermission(c, needs === "session" || needs === "own sign-in" ? null : needs);
  return forbidden ?? (stepUp === "always" ? await askForStepUp(c) : null) ?? run();
});

/** Enforces the access that a route declares. A form is read only after its session is known, so that a visitor who may not come in holds no memory. */
export const requireAccess = (build: Pick<Build, "isOpen">) =>
  [requireDeclaredSession(build), receiveForm((c) => shareOwner(c as unknown as PageContext)), requireDeclaredPermission] as const;
