import { publicOrigins } from "../lib/net/public-origins.ts";

/** The properties of a request context that hold the URL of the request. The request contexts of all surfaces have these properties. */
export interface Requested {
  req: { url: string };
  get(name: "url"): URL | undefined;
  set(name: "url", url: URL): void;
}

/**
 * Returns the parsed URL of a request. The first call parses the URL. The URL is not parsed earlier, because most API requests need only
 * its path and origin.
 */
export function urlOf(c: Requested): URL {
  const known = c.get("url");
  if (known) return known;
  const url = new URL(c.req.url);
  c.set("url", url);
  return url;
}

/**
 * The origin of the last request, and the part of its URL before the path. The origin is cached, because most requests of an isolate have
 * the same origin.
 */
let latest = { beginning: "", origin: "" };

export function requestOrigin({ req: { url } }: Pick<Requested, "req">): string {
  const pathAt = url.indexOf("/", url.indexOf("//") + 2);
  const beginning = pathAt === -1 ? url : url.slice(0, pathAt);
  if (latest.beginning !== beginning) latest = { beginning, origin: new URL(beginning).origin };
  return latest.origin;
}

/** The parsed origins of the last value of `PUBLIC_ORIGIN`. */
let configured: { text: string; origins: readonly string[] } = { text: "", origins: [] };

/**
 * Returns the origin for links in responses. If `PUBLIC_ORIGIN` lists origins, it is one of them. The origin of a request can be that of a proxy, or come from any
 * Host that its client has sent.
 */
export function publicOrigin(c: Pick<Requested, "req"> & { env: { PUBLIC_ORIGIN: string } }): string {
  const text = c.env.PUBLIC_ORIGIN;
  if (configured.text !== text) configured = { text, origins: publicOrigins(text) };
  const { origins } = configured;
  const own = requestOrigin(c);
  return origins.length === 0 || origins.includes(own) ? own : (origins[0] as string);
}

/** Returns whether the URL of a request has a non-empty query. */
export const hasQuery = ({ req: { url } }: Pick<Requested, "req">): boolean => /\?[^#]/.test(url);
