import { getPath } from "hono/utils/url";
import { maskKeys } from "../credentials/mask-keys.ts";
import type { AppContext } from "./context.ts";

/**
 * The maximum length of a shown path, in characters. This limit keeps an entry of the activity log below 1,000 bytes. SQLite stores each entry above
 * 1,000 bytes on its own page of 4 KiB.
 */
export const maxShownPath = 384;

/**
 * Matches a URL whose path may differ from the path that `URL` returns, or may have encoded characters. Such a URL contains a dot segment, a `%`, or
 * a character that `URL` changes in a path. Hono would decode encoded characters in a path.
 */
const isRaw = /\/\.|[^!#$&-;=?-[\]_a-z|~]/;

/** The last request and its path, cached because several steps in a row read the path of the same request. */
let latest: { request: Request; path: string } | undefined;

/**
 * Returns the path that a request is routed by: the path of its URL, still encoded and without dot segments. Routing, logs and error responses all
 * use this path.
 */
export function normalizedPath(request: Request): string {
  if (latest?.request !== request) latest = { request, path: isRaw.test(request.url) ? new URL(request.url).pathname : getPath(request) };
  return latest.path;
}

/** Returns the path for logs and error responses: at most 384 characters, with keys masked. */
export const shownPath = (c: AppContext): string => maskKeys(c.req.path, maxShownPath);
