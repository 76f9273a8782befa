import { Hono } from "hono";
import { Failure } from "../errors/failure.ts";
import type { AppContext, AppEnv } from "./context.ts";
import { failureOf } from "./problem.ts";
import { normalizedPath } from "./request-path.ts";

/** A part of the service for one kind of client, with middleware, an error form and a 404 of its own. */
export interface Surface {
  /** Whether the surface serves a path, with a response of its own where it has no route there. */
  serves: (path: string) => boolean;
  app: Hono<AppEnv>;
}

/** How the Worker was built. `isLocal`: for a laptop. `isOpen`: the overview needs no sign-in there. */
export interface Build {
  isLocal: boolean;
  isOpen: boolean;
}

/** Returns an app without routes. `fail`: returns the response for what went wrong. */
export function createSurfaceApp(fail: (c: AppContext, failure: Failure) => Response | Promise<Response>): Hono<AppEnv> {
  const app = new Hono<AppEnv>({ getPath: normalizedPath });
  app.onError((error, c) => fail(c, failureOf(error, c.get("requestId"))));
  app.notFound((c) => fail(c, new Failure("not_found", "There is nothing at this path.")));
  return app;
}

/** Whether a path is `base` or lies below it. */
export const isAt = (base: string, path: string): boolean => path === base || path.startsWith(`${base}/`);
