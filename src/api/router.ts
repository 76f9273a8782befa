import { OpenAPIHono } from "@hono/zod-openapi";
import type { ApiEnv } from "./context.ts";
import { onInvalid } from "./validation.ts";

/** Creates a router for the operations of one resource. If the input does not match a schema, the router responds with field errors. */
export const createRouter = () => new OpenAPIHono<ApiEnv>({ defaultHook: onInvalid });

export type ApiRouter = ReturnType<typeof createRouter>;
