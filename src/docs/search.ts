import { distance } from "fastest-levenshtein";
import type { DocPage } from "./page.ts";

export interface Found {
  page: DocPage;
  /** The line of the page that the words are in. */
  line: string;
}

/** How many pages a search shows at most. */
export const mostFound = 30;
const weights = { title: 8, path: 6, summary: 3, text: 1 };

/** Pages that have every word, those that have them in their title first. */
export function searchPages(pages: readonly DocPage[], text: string): Found[] {
  const words = wordsOf(text);
  if (words.length === 0) return [];
  return pages
    .map((page) => ({ page, score: scoreOf(page, words) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score)
    .slice(0, mostFound)
    .map(({ page }) => ({ page, line: lineWith(page, words) }));
}

const wordsOf = (text: string) =>
  text
    .toLowerCase()
    .split(/[^\p{L}\p{N}_.*]+/u)
    .filter((word) => word !== "");

/** 0 where a word is missing. */
function scoreOf({ title, path, summary, markdown }: DocPage, words: readonly string[]): number {
  const places = [
    [title, weights.title],
    [path, weights.path],
    [summary, weights.summary],
    [markdown, weights.text],
  ] as const;
  const scores = words.map((word) => places.reduce((sum, [text, weight]) => sum + (text.toLowerCase().includes(word) ? weight : 0), 0));
  return scores.some((score) => score === 0) ? 0 : scores.reduce((sum, score) => sum + score, 0);
}

function lineWith({ markdown, summary }: DocPage, words: readonly string[]): string {
  const isText = (line: string) => /^[A-Za-z]/.test(line) && words.some((word) => line.toLowerCase().includes(word));
  const line = markdown.split("\n").find(isText) ?? summary;
  return line
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/[`*]/g, "")
    .slice(0, 200);
}

const mostNear = 5;

/** The pages whose paths are nearest to one that is not there. */
export function nearestPages(pages: readonly DocPage[], path: string): DocPage[] {
  const tail = (text: string) => text.toLowerCase().split("/").at(-1) ?? "";
  const wanted = tail(path);
  // What begins alike or has it in its name comes before what is only spelled nearly so.
  const apartFrom = (name: string) =>
    name.startsWith(wanted) || wanted.startsWith(name)
      ? 0
      : name.includes(wanted)
        ? 1
        : 2 + distance(name, wanted) / Math.max(name.length, wanted.length);
  return pages
    .map((page) => ({ page, apart: apartFrom(tail(page.path)) }))
    .toSorted((a, b) => a.apart - b.apart)
    .slice(0, mostNear)
    .map(({ page }) => page);
}
