import { servesSamples } from "../db/registry/manifests.ts";
import built from "./built.txt";
import builtWithoutSamples from "./built-without-samples.txt";
import { type BuiltPage, originPlaceholder } from "./page.ts";
import { SearchIndex } from "./search-index.ts";

/** A group of pages in the navigation: the HTML of the group and the paths of its pages. */
export interface BuiltGroup {
  summary: string;
  list: string;
  paths: readonly string[];
}

/** A page for the team that runs the deployment. Only operators can read it. */
export interface BuiltTeamPage {
  path: string;
  title: string;
  group: "Guides" | "Reference";
  html: string;
}

/** The content of `built.txt` and of `built-without-samples.txt`. `scripts/build-docs.ts` writes the files before the Worker is bundled. */
export interface BuiltLibrary {
  pages: readonly BuiltPage[];
  groups: readonly BuiltGroup[];
  words: readonly string[];
  postings: readonly (readonly number[])[];
  team: readonly BuiltTeamPage[];
}

/**
 * All prebuilt pages of the documentation. A prebuilt page does not depend on the request. The origin is inserted when the page is served.
 */
export class Library {
  readonly pages: readonly BuiltPage[];
  readonly team: readonly BuiltTeamPage[];
  readonly search: SearchIndex;
  readonly #groups: readonly BuiltGroup[];
  readonly #byPath: ReadonlyMap<string, BuiltPage>;

  constructor({ pages, groups, words, postings, team }: BuiltLibrary) {
    this.pages = pages;
    this.team = team;
    this.search = new SearchIndex(pages, words, postings);
    this.#groups = groups;
    this.#byPath = new Map(pages.map((page) => [page.path, page]));
  }

  page(path: string): BuiltPage | undefined {
    return this.#byPath.get(path);
  }

  /** Returns the navigation as HTML. Marks the page at `path` and opens the group of that page. */
  contents(path: string): string {
    const shown = this.#groups.map(({ summary, list, paths }) =>
      paths.includes(path)
        ? `<details open>${summary}${list.replace(`href="${path}"`, `href="${path}" aria-current="page"`)}</details>`
        : `<details>${summary}${list}</details>`,
    );
    return `<nav class="contents" id="contents" aria-label="Documentation">${shown.join("")}</nav>`;
  }
}

let known: Library | undefined;

/** Returns the library. Each isolate parses the library only once. */
export function library(): Library {
  known ??= new Library(JSON.parse(servesSamples ? built : builtWithoutSamples) as BuiltLibrary);
  return known;
}

/** Replaces the placeholder for the origin in a text of the library. */
export const servedFrom = (text: string, origin: string): string => text.replaceAll(originPlaceholder, origin);
