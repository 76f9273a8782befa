import { createMiddleware } from "hono/factory";
import { newId } from "../ids/ids.ts";
import { discardBody } from "./body.ts";
import type { AppContext, AppEnv } from "./context.ts";

/** Calls a function with each response that is ready, from every source. */
export type Finish = (c: AppContext) => void;

interface RequestOptions {
  isLocal: boolean;
  /** The headers of every response of the transport. */
  headers?: Record<string, string>;
  finish: readonly Finish[];
}

/**
 * Gives a request its id and its clock, each made once, and its response to each of `finish` in turn. They are functions and not middleware,
 * since every middleware that waits for a response costs every request.
 */
export const requestContext = ({ isLocal, headers = {}, finish }: RequestOptions) =>
  createMiddleware<AppEnv>(async function requestContext(c, next) {
    const startedAt = Date.now();
    c.set("startedAt", startedAt);
    c.set("requestId", newId("req", startedAt));
    c.set("isLocal", isLocal);
    c.set("transportHeaders", headers);
    await next();
    for (const each of finish) each(c);
    // What nobody has read of the body, nobody will: else the response would wait for all of it to arrive.
    if (c.get("body") === undefined) discardBody(c);
  });
