/** The part of a request's context that its URL is read from. The contexts of all transports have it. */
interface Requested {
  req: { url: string };
  get(name: "url"): URL | undefined;
  set(name: "url", url: URL): void;
}

/** Returns where a request was sent, as `URL` reads it. Most requests of the API need no more than their path and origin, so it is read when it is asked for. */
export function urlOf(c: Requested): URL {
  const known = c.get("url");
  if (known) return known;
  const url = new URL(c.req.url);
  c.set("url", url);
  return url;
}

/** What the URLs of the last request began with, up to their path. Most requests of an isolate begin with the same. */
let latest = { beginning: "", origin: "" };

/** Returns the origin that a request was sent to. */
export function requestOrigin({ req: { url } }: Pick<Requested, "req">): string {
  const pathAt = url.indexOf("/", url.indexOf("//") + 2);
  const beginning = pathAt === -1 ? url : url.slice(0, pathAt);
  if (latest.beginning !== beginning) latest = { beginning, origin: new URL(beginning).origin };
  return latest.origin;
}

/** Whether a request was sent with a query that is not empty. */
export const hasQuery = ({ req: { url } }: Pick<Requested, "req">): boolean => /\?[^#]/.test(url);
