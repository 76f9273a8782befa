import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { AppEnv } from "../http/context.ts";
import { onInvalid } from "./middleware/validation.ts";
import type { ApiRoute } from "./route-policies.ts";

/** What handlers of the API find in `c.env` and `c.var`: what all transports do, and more of their route. */
export interface ApiEnv {
  Bindings: AppEnv["Bindings"];
  Variables: Omit<AppEnv["Variables"], "policy"> & { policy: ApiRoute | undefined };
}

export type ApiContext = Context<ApiEnv>;

/** A router for the operations of one resource: what their schemas refuse becomes a problem that names it. */
export const createRouter = () => new OpenAPIHono<ApiEnv>({ defaultHook: onInvalid });

export type ApiRouter = ReturnType<typeof createRouter>;
