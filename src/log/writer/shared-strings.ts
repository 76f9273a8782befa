import type { Entry } from "../entry.ts";

/** The maximum number of texts that are remembered. If it is reached, all are forgotten. */
const maxTexts = 20_000;

/**
 * Gives equal texts of different entries the same memory. Each entry arrives in a call with texts of its own, although most entries have the same
 * account, key, route or client. Without sharing, a memtable would need about twice its memory.
 */
export class SharedStrings {
  readonly #texts = new Map<string, string>();

  /** Returns the entry with shared texts. The id and the path stay as they are, because they are rarely equal. */
  share(entry: Entry): Entry {
    const { accountId, keyId, method, route, ip, country, userAgent, errorCode } = entry;
    return {
      ...entry,
      accountId: this.#of(accountId),
      keyId: this.#of(keyId),
      method: this.#of(method),
      route: this.#of(route),
      ip: ip && this.#of(ip),
      country: country && this.#of(country),
      userAgent: userAgent && this.#of(userAgent),
      errorCode: errorCode && this.#of(errorCode),
    };
  }

  #of(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (this.#texts.size >= maxTexts) this.#texts.clear();
    this.#texts.set(text, text);
    return text;
  }
}
