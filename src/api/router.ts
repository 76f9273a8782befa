import { OpenAPIHono } from "@hono/zod-openapi";
import type { ApiEnv } from "./context.ts";
import { onInvalid } from "./middleware/validation.ts";

/** A router for the operations of one resource: what their schemas refuse becomes a problem that names it. */
export const createRouter = () => new OpenAPIHono<ApiEnv>({ defaultHook: onInvalid });

export type ApiRouter = ReturnType<typeof createRouter>;
