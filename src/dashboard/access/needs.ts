import { createMiddleware } from "hono/factory";
import type { Permission } from "../../identity/roles.ts";
import type { PageEnv } from "../context.ts";

/** The requirements that a request must meet before the handler of a dashboard route runs. */
export interface Access {
  /**
   * The required access. "public" needs no session. "session" needs a member with any role. A permission needs a member whose role has this
   * permission. "own sign-in" needs a member who did not come by a portal link. Members of a suspended account may only view pages, except on
   * a route that needs "any session".
   */
  needs: "public" | "session" | "any session" | "own sign-in" | Permission;
  /**
   * Whether the route needs a recent sign-in. With "always", `requireAccess` checks the sign-in before the handler runs. With "sometimes",
   * the handler calls `askForStepUp` if the submitted change needs a recent sign-in.
   */
  stepUp?: "always" | "sometimes" | undefined;
}

/** Maps each middleware from `needs` to the access that the middleware declares. */
const declarations = new WeakMap<object, Access>();

/**
 * Returns middleware that declares the required access of a route. The middleware must come before the handler: `pages.post("/keys",
 * needs("keys", "always"), (c) => ..)`.
 */
export function needs(need: Access["needs"], stepUp?: Access["stepUp"]) {
  const declaration = createMiddleware<PageEnv>(async (_, next) => next());
  declarations.set(declaration, { needs: need, stepUp });
  return declaration;
}

export const declaredBy = (handler: unknown): Access | undefined => declarations.get(handler as object);
