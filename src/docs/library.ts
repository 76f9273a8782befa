import { type JsonObject, operationsIn, readOpenApi } from "../openapi/document.ts";
import { docPages } from "./catalogue.ts";
import { Console as consoleFor } from "./console.tsx";
import { contentsOf } from "./contents.tsx";
import type { OwnIds } from "./own-ids.ts";
import { type DocPage, operationPath, originPlaceholder } from "./page.ts";
import { operationPage, type Place } from "./pages/operations.ts";
import { renderMarkdown } from "./render.ts";
import { SearchIndex } from "./search-index.ts";

/**
 * All pages of the documentation. They are made once in an isolate: making them takes some 20 ms, and everybody may ask for one.
 * Nothing in it depends on a request: the origin is filled in when a page is served.
 */
export class Library {
  readonly document: JsonObject;
  readonly pages: readonly DocPage[];
  readonly search: SearchIndex;
  /** The navigation, with the page at `path` marked. */
  readonly contents: (path: string) => string;
  readonly #byPath: ReadonlyMap<string, DocPage>;
  readonly #places: ReadonlyMap<string, Place>;
  readonly #rendered = new Map<DocPage, string>();
  readonly #consoles = new Map<Place, string>();

  constructor(document: JsonObject) {
    this.document = document;
    this.pages = docPages(document);
    this.search = new SearchIndex(this.pages);
    this.contents = contentsOf(document, this.pages);
    this.#byPath = new Map(this.pages.map((page) => [page.path, page]));
    this.#places = new Map(operationsIn(document).map((place) => [operationPath(place.operation.operationId), place]));
  }

  /** Returns the page at a path; undefined if there is none. */
  page(path: string): DocPage | undefined {
    return this.#byPath.get(path);
  }

  /** Returns the operation that a page is about; undefined if it is about none. */
  place({ path }: DocPage): Place | undefined {
    return this.#places.get(path);
  }

  /** Returns the page of an operation with ids of an account in its samples. It is made for one visitor, and not kept. */
  pageWithIds(page: DocPage, ids: OwnIds): DocPage {
    const place = this.place(page);
    return place ? operationPage(this.document, place, ids) : page;
  }

  /** Returns the HTML of the console for an operation as everybody sees it, its fields filled with examples. */
  console(place: Place): string {
    const known = this.#consoles.get(place);
    if (known !== undefined) return known;
    const html = String(consoleFor({ document: this.document, ...place, demoKey: undefined, given: () => undefined }));
    this.#consoles.set(place, html);
    return html;
  }

  /** Returns the HTML of a page, which is kept if the page is one of the library. */
  html(page: DocPage): string {
    const known = this.#rendered.get(page);
    if (known !== undefined) return known;
    const html = renderMarkdown(page.markdown);
    if (this.#byPath.get(page.path) === page) this.#rendered.set(page, html);
    return html;
  }
}

/** Returns what reads the library, from the first call on from memory. Throws `unavailable` if the document cannot be read. */
export function libraryOf(): (env: Pick<Env, "ASSETS">, url: URL) => Promise<Library> {
  let known: Library | undefined;
  return async function readLibrary(env, url) {
    // The value is kept, not the promise: a request must not wait for the I/O of another one.
    if (known) return known;
    const document = await readOpenApi(env, url);
    known ??= new Library(document);
    return known;
  };
}

/** Returns a text of the library as it is served under an origin. */
export const servedFrom = (text: string, origin: string): string => text.replaceAll(originPlaceholder, origin);
