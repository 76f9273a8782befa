/** Some hundred pages. */
const mostCharacters = 8 * 1024 * 1024;

/** Pages that are the same for everybody, but for the nonce of their policy: making one takes ten times the CPU of a refusal. */
export class KeptPages {
  /** HTML, cut at each nonce. */
  readonly #pages = new Map<string, readonly string[]>();
  #characters = 0;

  /** Returns a page with another nonce; undefined where it is not kept. */
  read(name: string, nonce: string): string | undefined {
    return this.#pages.get(name)?.join(nonce);
  }

  /** Keeps a page that was made with a nonce. Where there are too many, it forgets the others. */
  keep(name: string, nonce: string, html: string): void {
    if (this.#characters + html.length > mostCharacters) {
      this.#pages.clear();
      this.#characters = 0;
    }
    this.#pages.set(name, html.split(nonce));
    this.#characters += html.length;
  }
}
