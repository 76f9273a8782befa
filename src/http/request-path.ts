/**
 * The path by which a request is routed: that of its URL, without dot segments, however they were written, and decoded once, as Hono does
 * it. So what is routed by, logged and shown is one path.
 */
export function normalizedPath(request: Request): string {
  const { pathname } = new URL(request.url);
  if (!pathname.includes("%")) return pathname;
  try {
    // An encoded percent sign stays one: parameters are decoded later.
    return decodeURI(pathname.replaceAll("%25", "%2525"));
  } catch {
    return pathname;
  }
}
