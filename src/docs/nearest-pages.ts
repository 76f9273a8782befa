import { distance } from "fastest-levenshtein";
import type { DocPage } from "./page.ts";

const maxNearest = 5;
/** The number of characters to compare in each name. No page has a longer name. */
const maxNameCharacters = 32;

/** Returns the pages with names most similar to the name in `path`. No page exists at `path`. */
export function nearestPages(pages: readonly DocPage[], path: string): DocPage[] {
  const nameOf = (text: string) =>
    text
      .slice(text.lastIndexOf("/") + 1)
      .slice(0, maxNameCharacters)
      .toLowerCase();
  const wanted = nameOf(path);
  // Rank names with the same beginning first, then names that contain the wanted name, then names with a similar spelling.
  const apartFrom = (name: string) =>
    name.startsWith(wanted) || wanted.startsWith(name)
      ? 0
      : name.includes(wanted)
        ? 1
        : 2 + distance(name, wanted) / Math.max(name.length, wanted.length);
  return pages
    .map((page) => ({ page, apart: apartFrom(nameOf(page.path)) }))
    .toSorted((a, b) => a.apart - b.apart)
    .slice(0, maxNearest)
    .map(({ page }) => page);
}
