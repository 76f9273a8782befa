import { createMiddleware } from "hono/factory";
import { newId } from "../ids.ts";
import { discardBody } from "./body.ts";
import type { AppEnv } from "./context.ts";

/** Gives a request its id, its clock and its URL, each made once. */
export const requestContext = ({ isLocal }: { isLocal: boolean }) =>
  createMiddleware<AppEnv>(async function requestContext(c, next) {
    const startedAt = Date.now();
    c.set("startedAt", startedAt);
    c.set("requestId", newId("req", startedAt));
    c.set("url", new URL(c.req.url));
    c.set("isLocal", isLocal);
    await next();
    // What nobody has read of the body, nobody will: else the response would wait for all of it to arrive.
    discardBody(c);
  });
