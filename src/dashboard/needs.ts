import { createMiddleware } from "hono/factory";
import type { Permission } from "../identity/roles.ts";
import type { PageEnv } from "./context.ts";

/** What a route of the dashboard requires before its handler runs. */
export interface Access {
  /**
   * The required access. "public" requires no session, and "session" requires a member with any role. A permission requires a member whose role has
   * the permission.
   */
  needs: "public" | "session" | Permission;
  /**
   * Whether the route needs a recent sign-in. "always" checks the sign-in before the handler runs. With "sometimes", the handler calls `askForStepUp`
   * if the submitted change needs a recent sign-in.
   */
  stepUp?: "always" | "sometimes" | undefined;
}

/** Maps each declaring middleware to the access that it declares. */
const declarations = new WeakMap<object, Access>();

/**
 * Returns middleware that declares the access of a route. The middleware must come before the handler: `pages.post("/keys", needs("keys", "always"),
 * (c) => ..)`.
 */
export function needs(need: Access["needs"], stepUp?: Access["stepUp"]) {
  const declaration = createMiddleware<PageEnv>(async (_, next) => next());
  declarations.set(declaration, { needs: need, stepUp });
  return declaration;
}

/** Returns the access that a handler declares, or undefined if the handler declares none. */
export const declaredBy = (handler: unknown): Access | undefined => declarations.get(handler as object);
