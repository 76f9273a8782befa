import { createMiddleware } from "hono/factory";
import type { Permission } from "../identity/roles.ts";
import type { PageEnv } from "./context.ts";

/** What a route of the dashboard requires before its handler runs. */
export interface Access {
  /** "public": nothing. "session": any member. Otherwise a member whose role has this permission. */
  needs: "public" | "session" | Permission;
  /**
   * A recent sign-in. "always": checked before the handler. "sometimes": the handler decides by what the form changes, and calls
   * `askForStepUp`.
   */
  stepUp?: "always" | "sometimes" | undefined;
}

/** What routes declare, by the middleware that declares it. */
const declarations = new WeakMap<object, Access>();

/** Declares what a route needs. Stands before its handler: `pages.post("/keys", needs("keys", "always"), (c) => ..)`. */
export function needs(need: Access["needs"], stepUp?: Access["stepUp"]) {
  const declaration = createMiddleware<PageEnv>(async (_, next) => next());
  declarations.set(declaration, { needs: need, stepUp });
  return declaration;
}

/** Returns what a handler declares; undefined if it is no declaration. */
export const declaredBy = (handler: unknown): Access | undefined => declarations.get(handler as object);
