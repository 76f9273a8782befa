/** Some two hundred pages of 37 KB. */
const maxCharacters = 8 * 1024 * 1024;

/** The HTML of pages that differ between visitors only in the nonce. Rendering one takes many times the CPU of a refusal. */
export class KeptPages {
  /** HTML, cut at each nonce. */
  readonly #pages = new Map<string, readonly string[]>();
  #characters = 0;

  /** Returns a page with another nonce; undefined where it is not kept. */
  read(name: string, nonce: string): string | undefined {
    return this.#pages.get(name)?.join(nonce);
  }

  /** Keeps a page that was made with this nonce. If there is no room left, it first drops all other pages. */
  keep(name: string, nonce: string, html: string): void {
    if (this.#pages.has(name)) return;
    if (this.#characters + html.length > maxCharacters) {
      this.#pages.clear();
      this.#characters = 0;
    }
    this.#pages.set(name, html.split(nonce));
    this.#characters += html.length;
  }
}
