import type { Suggestion } from "../dashboard/suggestions.ts";
import type { DocPage, Heading } from "./page.ts";

export interface Found {
  page: DocPage;
  /** The part of the page in which the line stands. Null if the line stands before the first heading. */
  part: Heading | null;
  /** A line that contains a searched word, or the summary of the page if no line contains such a word. */
  line: string;
}

export const maxFound = 30;
/** The maximum number of pages that are suggested while the reader types. */
export const maxSuggestions = 8;
/**
 * The maximum length of a query, in characters. Anyone can search without signing in. The limits of a query therefore keep every search
 * cheap.
 */
export const maxQueryCharacters = 200;
export const maxQueryWords = 10;
/**
 * A query word with at least this many characters also matches longer words that start with it. A single letter would match a tenth of all
 * words.
 */
const minBeginning = 3;
const maxLineCharacters = 200;

/** The places where a word can occur. Each place has a bit and a weight. */
export const places = { title: [1, 8], path: [2, 6], summary: [4, 3], text: [8, 1], heading: [16, 5] } as const;
/** Readers search for guides more often than for schemas. */
const weightsOfKinds: Partial<Record<DocPage["kind"], number>> = { Guide: 4, Operation: 2, Event: -2, Schema: -12 };
const weightOf = Array.from({ length: 32 }, (_, bits) =>
  Object.values(places).reduce((sum, [bit, weight]) => sum + (bits & bit ? weight : 0), 0),
);

/**
 * The occurrences of a word on one page. `bits`: the places where the word occurs, as a bit set. `line`: the position in the Markdown where
 * the first text line with the word begins, or where the text below the first heading with the word begins. If there is none, `line` is -1.
 */
export interface Posting {
  page: number;
  bits: number;
  line: number;
}

export const pathOf = ({ page, part }: Pick<Found, "page" | "part">): string => (part ? `${page.path}#${part.id}` : page.path);
/** Returns the title of the page, with the heading of the part that was found. */
export const nameOf = ({ page, part }: Pick<Found, "page" | "part">): string => (part ? `${page.title}: ${part.text}` : page.title);
export const suggestionOf = (found: Found): Suggestion => ({ kind: found.page.kind, name: nameOf(found), path: pathOf(found) });

export const wordsOf = (text: string) => text.match(/[\p{L}\p{N}_.*]+/gu) ?? [];

export const queryWordsOf = (query: string): string[] => [...new Set(wordsOf(query.toLowerCase()))];

/**
 * Returns the text from an offset in a page to the end of its paragraph. Removes the Markdown markup. A text that begins within a sentence starts with
 * "… ".
 */
function lineAt({ markdown }: DocPage, offset: number): string {
  const end = markdown.indexOf("\n\n", offset);
  const text = plain((end === -1 ? markdown.slice(offset) : markdown.slice(offset, end)).replaceAll("\n", " "));
  return /^\p{Ll}/u.test(text) ? `… ${text}` : text;
}

type Indexed = DocPage & { headings?: readonly Heading[] };

/** The prebuilt search index of all pages. A search reads the text of only those pages that it returns. */
export class SearchIndex {
  readonly #pages: readonly Indexed[];
  /** All indexed words, sorted so that words with the same prefix are adjacent. */
  readonly #words: readonly string[];
  /** A flat list of postings for each indexed word. Every posting takes three numbers: page, bits and line. */
  readonly #postings: readonly (readonly number[])[];

  constructor(pages: readonly Indexed[], words: readonly string[], postings: readonly (readonly number[])[]) {
    [this.#pages, this.#words, this.#postings] = [pages, words, postings];
  }

  /** Returns the pages that match every word of a query, best match first. */
  find(words: readonly string[]): Found[] {
    if (words.length === 0) return [];
    const pages = this.#pages.map((page) => ({ page, words: 0, inTitle: 0, score: 0, bits: 0, line: -1 }));
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
        if (found.bits & places.title[0]) found.inTitle++;
        found.score += weightOf[found.bits] ?? 0;
        found.bits = 0;
      }
    }
    return (
      pages
        // Customers never get an error of the team API.
        .filter(({ words: all, page }) => all === words.length && page.kind !== "Error of the team API")
        .map((found) => ({ ...found, score: found.score + (weightsOfKinds[found.page.kind] ?? 0) }))
        .toSorted((one, other) => other.score - one.score)
        .slice(0, maxFound)
        .map(({ page, line, inTitle }) => ({
          page,
          // A page that is named as the query is found as a whole.
          part: line === -1 || inTitle === words.length ? null : (page.headings?.findLast(({ at }) => at < line) ?? null),
          line: line === -1 ? plain(page.summary) : lineAt(page, line),
        }))
    );
  }

  /** Yields the postings of a word, and of longer words that start with it. A word of fewer than three characters matches only itself. */
  *#postingsOf(word: string): Generator<Posting> {
    const isWhole = word.length < minBeginning;
    for (let index = this.#firstFrom(word); ; index++) {
      const known = this.#words[index];
      if (known === undefined || !(isWhole ? known === word : known.startsWith(word))) return;
      const flat = this.#postings[index] ?? [];
      for (let at = 0; at < flat.length; at += 3) yield { page: flat[at] ?? 0, bits: flat[at + 1] ?? 0, line: flat[at + 2] ?? -1 };
    }
  }

  /** Returns the index of the first word that is equal to `beginning` or sorts after it. */
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

/** Removes the Markdown markup from a line. Cuts a long line at the end of a word. */
function plain(line: string): string {
  const text = line.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll(/[`*]/g, "");
  if (text.length <= maxLineCharacters) return text;
  const words = text.slice(0, maxLineCharacters - 1);
  return `${words.slice(0, Math.max(words.lastIndexOf(" "), 1))} …`;
}
