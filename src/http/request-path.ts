import { getPath } from "hono/utils/url";
import { maskPath } from "../credentials/mask-keys.ts";
import type { AppContext } from "./context.ts";

/**
 * Matches a URL that contains a dot segment, a `%`, or a character that `URL` changes in a path. For such a URL, Hono's `getPath` may
 * return a different path than `URL`. For example, `getPath` decodes encoded characters.
 */
const isRaw = /\/\.|[^!#$&-;=?-[\]_a-z|~]/;

/** The last request and its path. The path is cached, because several steps in a row read the path of the same request. */
let latest: { request: Request; path: string } | undefined;

/** Returns the path of the request's URL, still encoded and without dot segments. Routing, logs and error responses all use this path. */
export function normalizedPath(request: Request): string {
  if (latest?.request !== request) latest = { request, path: isRaw.test(request.url) ? new URL(request.url).pathname : getPath(request) };
  return latest.path;
}

/** Returns the path for logs and error responses: at most 384 characters, with API keys masked. */
export const shownPath = (c: AppContext): string => maskPath(c.req.path);
