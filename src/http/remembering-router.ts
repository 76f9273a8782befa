import type { Result, Router } from "hono/router";
import { TrieRouter } from "hono/router/trie-router";

/** No route has as many segments. What follows them is not searched for, since a search takes time for each. */
const mostSegments = 20;

/** The first segments of a path: a path with more matches what they match. */
function beginningOf(path: string): string {
  let end = 0;
  for (let segments = 0; segments < mostSegments; segments++) {
    end = path.indexOf("/", end + 1);
    if (end === -1) return path;
  }
  return path.slice(0, end);
}

/**
 * Hono's TrieRouter, which remembers what it found for paths without a parameter, since every search costs as much as a hash.
 * Routes are added before the first search. Hono's RegExpRouter would do the same, but does not take `/keys/revoke-leaked`
 * beside `/keys/:id`.
 */
export class RememberingRouter<Handler> implements Router<Handler> {
  readonly name = "RememberingRouter";
  readonly #all = new TrieRouter<Handler>();
  readonly #fixedPaths = new Set<string>();
  readonly #found = new Map<string, Result<Handler>>();

  add(method: string, path: string, handler: Handler): void {
    if (beginningOf(path) !== path) throw new Error(`${path} has more than ${mostSegments} segments`);
    this.#all.add(method, path, handler);
    if (!/[:*]/.test(path)) this.#fixedPaths.add(path);
  }

  match(method: string, path: string): Result<Handler> {
    const name = `${method} ${path}`;
    const known = this.#found.get(name);
    if (known) return known;
    const found = this.#all.match(method, beginningOf(path));
    if (this.#fixedPaths.has(path)) this.#found.set(name, found);
    return found;
  }
}
