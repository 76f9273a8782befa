import type { DocPage } from "../../src/docs/page.ts";
import { type Posting, places, wordsOf } from "../../src/docs/search-index.ts";

/**
 * Returns the words under which the search index lists a text, in lower case. These are the whole words and the parts of each word. For
 * example, the parts of "rate_limit.warning" are "rate", "limit" and "warning".
 */
function indexedWordsOf(text: string): Set<string> {
  const whole = wordsOf(text);
  const parts = whole.flatMap((word) => word.split(/[_.*]+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u));
  return new Set([...whole, ...parts].filter((word) => word !== "").map((word) => word.toLowerCase()));
}

/** Returns whether a line of Markdown is plain text that search results can show. */
const isTextLine = (line: string): boolean => /^[A-Za-z]/.test(line);

/** Builds the search index: the sorted words of all pages, and the postings of each word. */
export function buildIndex(pages: readonly DocPage[]): { words: string[]; postings: number[][] } {
  const index = new Map<string, Posting[]>();
  const add = (page: number, bit: number, line: number, text: string) => {
    for (const word of indexedWordsOf(text)) {
      const known = index.get(word) ?? [];
      if (known.length === 0) index.set(word, known);
      const last = known.at(-1);
      if (last?.page !== page) known.push({ page, bits: bit, line });
      else {
        // The part whose heading contains the word is a better place than a line that contains it.
        if (last.line === -1 || (bit === places.heading[0] && (last.bits & bit) === 0)) last.line = line;
        last.bits |= bit;
      }
    }
  };
  for (const [page, { title, path, summary, markdown }] of pages.entries()) {
    add(page, places.title[0], -1, title);
    add(page, places.path[0], -1, path);
    add(page, places.summary[0], -1, summary);
    let [offset, isCode, heading] = [0, false, ""];
    for (const line of markdown.split("\n")) {
      if (line.startsWith("```")) isCode = !isCode;
      const isText = !isCode && isTextLine(line);
      if (isText && heading !== "") {
        add(page, places.heading[0], offset, heading);
        heading = "";
      }
      if (!isCode && /^##+ /.test(line)) heading = line;
      else add(page, places.text[0], isText ? offset : -1, line);
      offset += line.length + 1;
    }
  }
  const words = [...index.keys()].toSorted();
  return { words, postings: words.map((word) => (index.get(word) ?? []).flatMap(({ page, bits, line }) => [page, bits, line])) };
}
