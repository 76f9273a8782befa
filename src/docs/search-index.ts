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
export const places = { title: [1, 8], path: [2, 6], summary: [4, 3], text: [8, 1] } as const;
const weightOf = Array.from({ length: 16 }, (_, bits) =>
  Object.values(places).reduce((sum, [bit, weight]) => sum + (bits & bit ? weight : 0), 0),
);

/** Where a page has a word: the places as bits, and the number of its first line of text with it; -1 if only other lines have it. */
export interface Posting {
  page: number;
  bits: number;
  line: number;
}

export const wordsOf = (text: string) => text.match(/[\p{L}\p{N}_.*]+/gu) ?? [];

/** The words of a query. */
export const queryWordsOf = (query: string): string[] => [...new Set(wordsOf(query.toLowerCase()))];

/** Whether a line of Markdown is text that a search shows. */
export const isTextLine = (line: string): boolean => /^[A-Za-z]/.test(line);

/** The line of text of a page with this number, without the marks of Markdown. */
const lineOf = ({ markdown }: DocPage, number: number): string | undefined => markdown.split("\n").filter(isTextLine).map(plain)[number];

/** The words of all pages, as they were built: a search looks up its words and reads no page. */
export class SearchIndex {
  readonly #pages: readonly DocPage[];
  /** Sorted, so that all words with a beginning lie together. */
  readonly #words: readonly string[];
  /** By word: page, bits and line of each page that has it, one after the other. */
  readonly #postings: readonly (readonly number[])[];

  constructor(pages: readonly DocPage[], words: readonly string[], postings: readonly (readonly number[])[]) {
    [this.#pages, this.#words, this.#postings] = [pages, words, postings];
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
      .filter((found) => found.words === words.length)
      .toSorted((one, other) => other.score - one.score)
      .slice(0, maxFound)
      .map(({ page, line }) => ({ page, line: lineOf(page, line) ?? plain(page.summary) }));
  }

  /** Returns where the word is, and every word that begins with it. */
  *#postingsOf(word: string): Generator<Posting> {
    const isWhole = word.length < minBeginning;
    for (let index = this.#firstFrom(word); ; index++) {
      const known = this.#words[index];
      if (known === undefined || !(isWhole ? known === word : known.startsWith(word))) return;
      const flat = this.#postings[index] ?? [];
      for (let at = 0; at < flat.length; at += 3) yield { page: flat[at] ?? 0, bits: flat[at + 1] ?? 0, line: flat[at + 2] ?? -1 };
    }
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
