import type { DocPage } from "./page.ts";

export interface Found {
  page: DocPage;
  /** The line of the page that has one of the words. */
  line: string;
}

/** The most pages that a search returns. */
export const maxFound = 30;
/** Bounds of a query. They bound the work of a search, which is open to everybody. */
export const maxQueryCharacters = 200;
export const maxQueryWords = 10;
/** Shorter words are found whole: a letter is the beginning of a tenth of all words. */
const minBeginning = 3;
const maxLineCharacters = 200;

/** The places that a word can be in, as bits, with their weights. */
const places = { title: [1, 8], path: [2, 6], summary: [4, 3], text: [8, 1] } as const;
const weightOf = Array.from({ length: 16 }, (_, bits) =>
  Object.values(places).reduce((sum, [bit, weight]) => sum + (bits & bit ? weight : 0), 0),
);

/** Where a page has a word: the places as bits, and the number of its first line of text with it; -1 if only other lines have it. */
interface Posting {
  page: number;
  bits: number;
  line: number;
}

const wordsOf = (text: string) => text.match(/[\p{L}\p{N}_.*]+/gu) ?? [];

/** The words that a text is found by: each whole, and its parts: "rate_limit.warning", "RateLimit", "limit". */
function indexedWordsOf(text: string): Set<string> {
  const whole = wordsOf(text);
  const parts = whole.flatMap((word) => word.split(/[_.*]+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u));
  return new Set([...whole, ...parts].filter((word) => word !== "").map((word) => word.toLowerCase()));
}

/** The words of a query. */
export const queryWordsOf = (query: string): string[] => [...new Set(wordsOf(query.toLowerCase()))];

/** The words of all pages, made once: a search looks up its words and reads no page. */
export class SearchIndex {
  readonly #pages: readonly DocPage[];
  /** Sorted, so that all words with a beginning lie together. */
  readonly #words: readonly string[];
  readonly #postings: ReadonlyMap<string, readonly Posting[]>;
  /** By page: its lines of text, without the marks of Markdown. */
  readonly #lines: readonly (readonly string[])[];

  constructor(pages: readonly DocPage[]) {
    const postings = new Map<string, Posting[]>();
    const add = (page: number, bit: number, line: number, text: string) => {
      for (const word of indexedWordsOf(text)) {
        const known = postings.get(word) ?? [];
        if (known.length === 0) postings.set(word, known);
        const last = known.at(-1);
        if (last?.page !== page) known.push({ page, bits: bit, line });
        else {
          last.bits |= bit;
          if (last.line === -1) last.line = line;
        }
      }
    };
    this.#pages = pages;
    this.#lines = pages.map(({ title, path, summary, markdown }, page) => {
      add(page, places.title[0], -1, title);
      add(page, places.path[0], -1, path);
      add(page, places.summary[0], -1, summary);
      const lines: string[] = [];
      for (const line of markdown.split("\n")) {
        const isText = /^[A-Za-z]/.test(line);
        add(page, places.text[0], isText ? lines.length : -1, line);
        if (isText) lines.push(plain(line));
      }
      return lines;
    });
    this.#postings = postings;
    this.#words = [...postings.keys()].toSorted();
  }

  /** Returns the pages that have every word or a word that begins with it, best first. */
  find(words: readonly string[]): Found[] {
    if (words.length === 0) return [];
    const pages = this.#pages.map((page) => ({ page, words: 0, score: 0, bits: 0, line: -1 }));
    for (const word of words) {
      for (const { page: number, bits, line } of this.#postingsOf(word)) {
        const found = pages[number];
        if (!found) continue;
        found.bits |= bits;
        if (found.line === -1) found.line = line;
      }
      for (const found of pages) {
        if (found.bits === 0) continue;
        found.words++;
        found.score += weightOf[found.bits] ?? 0;
        found.bits = 0;
      }
    }
    return pages
      .map((found, number) => ({ ...found, number }))
      .filter((found) => found.words === words.length)
      .toSorted((one, other) => other.score - one.score)
      .slice(0, maxFound)
      .map(({ page, number, line }) => ({ page, line: this.#lines[number]?.[line] ?? plain(page.summary) }));
  }

  /** Returns where the word is, and every word that begins with it. */
  *#postingsOf(word: string): Generator<Posting> {
    if (word.length < minBeginning) {
      yield* this.#postings.get(word) ?? [];
      return;
    }
    for (let index = this.#firstFrom(word); this.#words[index]?.startsWith(word); index++)
      yield* this.#postings.get(this.#words[index] as string) ?? [];
  }

  /** Returns the number of the first word that is not before `beginning`. */
  #firstFrom(beginning: string): number {
    let [from, to] = [0, this.#words.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#words[middle] as string) < beginning) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

const plain = (line: string) =>
  line
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/[`*]/g, "")
    .slice(0, maxLineCharacters);
