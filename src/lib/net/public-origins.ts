/** Returns the origins in `PUBLIC_ORIGIN`, a comma-separated list. Throws if an origin is not a valid URL. */
export const publicOrigins = (list: string): string[] =>
  list.split(",").flatMap((origin) => (origin.trim() === "" ? [] : [new URL(origin.trim()).origin]));
