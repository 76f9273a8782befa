import { distance } from "fastest-levenshtein";
import type { DocPage } from "./page.ts";

const maxNearest = 5;
/** No page has a longer name. What is longer is compared by its beginning. */
const maxNameCharacters = 32;

/** Returns the pages whose paths are nearest to one that is not there. */
export function nearestPages(pages: readonly DocPage[], path: string): DocPage[] {
  const nameOf = (text: string) =>
    text
      .slice(text.lastIndexOf("/") + 1)
      .slice(0, maxNameCharacters)
      .toLowerCase();
  const wanted = nameOf(path);
  // Names that begin alike or contain it come before those that are only spelled nearly so.
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
