import { getPath } from "hono/utils/url";
import { maskKeys } from "../keys/mask-keys.ts";
import type { AppContext } from "./context.ts";

const longestShown = 1024;

/** Whether a URL, as it arrives, may not be in the form that `URL` gives it, or has something encoded, which Hono would decode. */
const isRaw = /\/\.|\\|%/;

/** The path by which a request is routed: that of its URL, without dot segments and as it is encoded. So what is routed by, logged and shown is one path. */
export const normalizedPath = (request: Request): string => (isRaw.test(request.url) ? new URL(request.url).pathname : getPath(request));

/** The path as it is logged and repeated: of 1,024 characters at most, with keys masked. */
export const shownPath = (c: AppContext): string => maskKeys(c.get("url").pathname, longestShown);
