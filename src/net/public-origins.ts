/** Returns the origins in `PUBLIC_ORIGIN`, a comma-separated list. Throws if an origin is not a valid URL. */
export const publicOrigins = (list: string): string[] =>
  list.split(",").flatMap((origin) => (origin.trim() === "" ? [] : [new URL(origin.trim()).origin]));

/** Returns the requested origin if it is in `PUBLIC_ORIGIN` or the list is empty. If not, a client may have invented it: returns the first origin. */
export function shownOrigin(list: string, requested: string): string {
  const [first = requested, ...others] = publicOrigins(list);
  return others.includes(requested) ? requested : first;
}
