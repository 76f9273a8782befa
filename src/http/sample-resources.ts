import { createMiddleware } from "hono/factory";
import { Failure } from "../errors/failure.ts";
import type { AppEnv } from "./context.ts";

/**
 * Returns middleware that hides the sample resources if `SAMPLE_RESOURCES` is `off`. A team that only verifies requests of its own API does not need
 * them. `bases`: the paths of the resources.
 */
export const sampleResources = (bases: readonly string[]) =>
  createMiddleware<AppEnv>(async function sampleResources(c, next) {
    if ((c.env.SAMPLE_RESOURCES as string) === "off" && bases.some((base) => c.req.path === base || c.req.path.startsWith(`${base}/`)))
      throw new Failure("not_found", "There is nothing at this path.");
    return next();
  });
