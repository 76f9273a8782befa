import { getPath } from "hono/utils/url";
import { maskKeys } from "../credentials/mask-keys.ts";
import type { AppContext } from "./context.ts";

/** Keeps an entry of the activity log below 1,000 bytes. Above that, SQLite stores each entry on a page of its own, of 4 KiB. */
const maxShown = 384;

/**
 * Returns whether a URL may differ from the form that `URL` gives it, or has encoded characters, which Hono would decode. It then has a dot
 * segment, or a character that `URL` changes in a path.
 */
const isRaw = /\/\.|[^!#$&-;=?-[\]_a-z|~]/;

/** The last request and its path. A request is asked for its path more than once, one request after the other. */
let latest: { request: Request; path: string } | undefined;

/** The path by which a request is routed: that of its URL, without dot segments and as it is encoded. So what is routed by, logged and shown is one path. */
export function normalizedPath(request: Request): string {
  if (latest?.request !== request) latest = { request, path: isRaw.test(request.url) ? new URL(request.url).pathname : getPath(request) };
  return latest.path;
}

/** The path as it is logged and repeated: of 384 characters at most, with keys masked. */
export const shownPath = (c: AppContext): string => maskKeys(c.req.path, maxShown);
