import { createMiddleware } from "hono/factory";
import { newId } from "../lib/ids.ts";
import { discardBody } from "./body.ts";
import type { AppEnv, Finish } from "./context.ts";
import { requestLine } from "./request-line.ts";
import { standardHeaders } from "./standard-headers.ts";

interface RequestOptions {
  isLocal: boolean;
  /** The headers that the surface sets on every response. */
  headers?: Record<string, string>;
  finish?: readonly Finish[];
}

/**
 * Sets the id and the start time of each request, and runs the `finish` steps on its response. The `finish` steps are plain functions,
 * because each middleware that awaits the response slows down every request.
 */
export const requestContext = ({ isLocal, headers = {}, finish = [standardHeaders, requestLine] }: RequestOptions) =>
  createMiddleware<AppEnv>(async function requestContext(c, next) {
    const startedAt = Date.now();
    c.set("startedAt", startedAt);
    c.set("requestId", newId("req", startedAt));
    c.set("isLocal", isLocal);
    c.set("transportHeaders", headers);
    await next();
    for (const each of finish) each(c);
    // If no middleware read the request body, cancel the body. Otherwise the response would wait until the whole body has arrived.
    if (c.get("body") === undefined) discardBody(c);
  });
