/**
 * The path by which a request is routed: that of its URL, without dot segments, however they were written, and decoded. What calls
 * itself by another path than it is routed by could pass one rule and be subject to another.
 */
export function normalizedPath(request: Request): string {
  const { pathname } = new URL(request.url);
  if (!pathname.includes("%")) return pathname;
  try {
    return decodeURI(pathname);
  } catch {
    return pathname;
  }
}
