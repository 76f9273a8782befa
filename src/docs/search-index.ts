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
    const scores = new Float64Array(this.#pages.length);
    const matched = new Uint8Array(this.#pages.length);
    const lines = new Int32Array(this.#pages.length).fill(-1);
    words.forEach((word, number) => {
      for (const [page, { bits, line }] of this.#pagesWith(word)) {
        // Only a page that had every word before goes on.
        if (matched[page] !== number) continue;
        matched[page] = number + 1;
        scores[page] = (scores[page] ?? 0) + (weightOf[bits] ?? 0);
        if (lines[page] === -1) lines[page] = line;
      }
    });
    return [...matched.keys()]
      .filter((page) => matched[page] === words.length)
      .toSorted((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0))
      .slice(0, maxFound)
      .map((number) => {
        const page = this.#pages[number] as DocPage;
        return { page, line: this.#lines[number]?.[lines[number] ?? -1] ?? plain(page.summary) };
      });
  }

  /** Returns the places of all words that begin with `beginning`, by page. */
  #pagesWith(beginning: string): Map<number, Posting> {
    const found = new Map<number, Posting>();
    for (let index = this.#firstFrom(beginning); this.#words[index]?.startsWith(beginning); index++)
      for (const posting of this.#postings.get(this.#words[index] as string) ?? []) {
        const known = found.get(posting.page);
        if (known) found.set(posting.page, { ...known, bits: known.bits | posting.bits, line: firstLine(known.line, posting.line) });
        else found.set(posting.page, posting);
      }
    return found;
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

const firstLine = (a: number, b: number) => (a === -1 ? b : b === -1 ? a : Math.min(a, b));

const plain = (line: string) =>
  line
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/[`*]/g, "")
    .slice(0, maxLineCharacters);
