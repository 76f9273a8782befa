import type { Result, Router } from "hono/router";
import { TrieRouter } from "hono/router/trie-router";

/** No route is as long. What follows is not searched for: a search takes time for each segment. */
const longestPath = 1024;

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
    this.#all.add(method, path, handler);
    if (!/[:*]/.test(path)) this.#fixedPaths.add(path);
  }

  match(method: string, path: string): Result<Handler> {
    const name = `${method} ${path}`;
    const known = this.#found.get(name);
    if (known) return known;
    const found = this.#all.match(method, path.slice(0, longestPath));
    if (this.#fixedPaths.has(path)) this.#found.set(name, found);
    return found;
  }
}
