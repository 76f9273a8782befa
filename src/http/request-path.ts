import { getPath } from "hono/utils/url";

/** Whether a URL, as it arrives, may have dot segments, however they are written, or a backslash in place of a slash. */
const isRaw = /[/\\](?:\.|%2e)|\\/i;

/**
 * The path by which a request is routed: that of its URL, without dot segments, and decoded as Hono does it. So what is routed by, logged
 * and shown is one path.
 */
export const normalizedPath = (request: Request): string =>
  getPath(isRaw.test(request.url) ? ({ url: new URL(request.url).href } as Request) : request);
