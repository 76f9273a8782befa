import { Hono } from "hono";
import { Failure } from "../lib/errors/failure.ts";
import type { AppContext, AppEnv } from "./context.ts";
import { failureOf } from "./problem.ts";
import { normalizedPath } from "./request-path.ts";

/** A part of the service for one kind of client. A surface has its own middleware, error format and 404 response. */
export interface Surface {
  /** Returns whether the surface handles a path. For a path without a route, the surface responds with 404. */
  serves: (path: string) => boolean;
  app: Hono<AppEnv>;
}

/**
 * The build settings of the Worker. `isLocal` is true if the Worker is a local build, as `npm start` builds it. `isOpen` is true if the
 * local overview needs no sign-in.
 */
export interface Build {
  isLocal: boolean;
  isOpen: boolean;
}

/** Creates an app without routes. `fail` returns the response for a failure. */
export function createSurfaceApp(fail: (c: AppContext, failure: Failure) => Response | Promise<Response>): Hono<AppEnv> {
  const app = new Hono<AppEnv>({ getPath: normalizedPath });
  app.onError((error, c) => fail(c, failureOf(error, c.get("requestId"))));
  app.notFound((c) => fail(c, new Failure("not_found", "There is nothing at this path.")));
  return app;
}

/** Returns whether a path equals `base` or lies below `base`. */
export const isAt = (base: string, path: string): boolean => path === base || path.startsWith(`${base}/`);
