import { getPath } from "hono/utils/url";

/** Whether a URL, as it arrives, may not be in the form that `URL` gives it, or has something encoded, which Hono would decode. */
const isRaw = /\/\.|\\|%/;

/** The path by which a request is routed: that of its URL, without dot segments and as it is encoded. So what is routed by, logged and shown is one path. */
export const normalizedPath = (request: Request): string => (isRaw.test(request.url) ? new URL(request.url).pathname : getPath(request));
