import { distance } from "fastest-levenshtein";
import type { DocPage } from "./page.ts";

const maxNearest = 5;
/** The number of characters of a name that are compared. No page has a longer name. */
const maxNameCharacters = 32;

/** Returns the pages whose names are most similar to the name in a path that does not exist. */
export function nearestPages(pages: readonly DocPage[], path: string): DocPage[] {
  const nameOf = (text: string) =>
    text
      .slice(text.lastIndexOf("/") + 1)
      .slice(0, maxNameCharacters)
      .toLowerCase();
  const wanted = nameOf(path);
  // Rank shared beginnings first, then names that contain the wanted name, then names with a similar spelling.
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
