/** Returns the origins in `PUBLIC_ORIGIN`, a comma-separated list. Throws if an origin is not a valid URL. */
export const publicOrigins = (list: string): string[] =>
  list.split(",").flatMap((origin) => (origin.trim() === "" ? [] : [new URL(origin.trim()).origin]));

/**
 * Returns the origin that a response may name: the origin of the request if it is in `PUBLIC_ORIGIN`, or else the first origin there. A
 * client can send any `Host`, and a cache could give the response to others. If `PUBLIC_ORIGIN` is empty, returns the origin of the request.
 */
export function shownOrigin(list: string, requested: string): string {
  const own = publicOrigins(list);
  return own.includes(requested) ? requested : (own[0] ?? requested);
}
