/** The maximum size of the page cache, in characters. The cache holds about 200 pages of 37 KB. */
const maxCharacters = 8 * 1024 * 1024;

/**
 * Caches the HTML of pages that are the same for all visitors, except for the nonce. Without the cache, a page needs many times as much CPU
 * time as a denied request.
 */
export class PageCache {
  /** The HTML of each cached page, split at every nonce. */
  readonly #pages = new Map<string, readonly string[]>();
  #characters = 0;

  /** Returns a cached page with the given nonce inserted, or undefined if the page is not cached. */
  read(name: string, nonce: string): string | undefined {
    return this.#pages.get(name)?.join(nonce);
  }

  /** Caches a page that was rendered with the given nonce. If the cache is full, this method first deletes all cached pages. */
  store(name: string, nonce: string, html: string): void {
    if (this.#pages.has(name)) return;
    if (this.#characters + html.length > maxCharacters) {
      this.#pages.clear();
      this.#characters = 0;
    }
    this.#pages.set(name, html.split(nonce));
    this.#characters += html.length;
  }
}
