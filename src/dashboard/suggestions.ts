import type { Context } from "hono";

/** A result that the search field shows while the reader types. */
export interface Suggestion {
  /** What the result is, for example "API key". */
  kind: string;
  name: string;
  path: string;
}

/** Returns whether a script of a page sent the request. A browser that opens the page asks for HTML. */
export const wantsJson = (c: Context): boolean => c.req.header("Accept") === "application/json";
