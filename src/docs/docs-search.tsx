import { Hono } from "hono";
import { maxSearch, showPage, uncached } from "../dashboard/components/layout.tsx";
import { Empty } from "../dashboard/components/notice.tsx";
import type { PageEnv } from "../dashboard/context.ts";
import { wantsJson } from "../dashboard/suggestions.ts";
import { publicOrigin, urlOf } from "../http/request-url.ts";
import { library, servedFrom } from "./library.ts";
import { linkTo, markdownHeaders, prefersMarkdown } from "./markdown.ts";
import {
  type Found,
  maxFound,
  maxQueryCharacters,
  maxQueryWords,
  maxSuggestions,
  nameOf,
  pathOf,
  queryWordsOf,
  suggestionOf,
} from "./search-index.ts";

const tooLong = `A search may have at most ${maxQueryCharacters} characters and ${maxQueryWords} words. Shorten it.`;

const nothingFound = (text: string, count: number) =>
  `No page contains “${text}”. ${count} pages were searched: guides, operations, events, errors and schemas.`;

const searchMarkdown = (text: string, found: readonly Found[], count: number) =>
  `# Search the documentation\n\n${found.length === 0 ? nothingFound(text, count) : found.map(({ page, line }) => `${linkTo(page)}: ${line}`).join("\n")}\n`;

/** Renders the search field of the documentation. */
export const Search = ({ text }: { text: string }) => (
  <search>
    <form class="filters" method="get" action="/docs/search">
      <label class="unseen" for="docs-search">
        Search the documentation
      </label>
      <input
        id="docs-search"
        class="grow"
        name="q"
        type="search"
        value={text}
        maxlength={maxQueryCharacters}
        placeholder="Search the documentation"
        data-suggest="/search /docs/search"
      />
      <button type="submit">Search</button>
    </form>
  </search>
);

/** Finds pages of the documentation. Responds with HTML, with Markdown, or with JSON for the script of the search field. */
export const docsSearchPages = new Hono<PageEnv>().on("GET", ["/docs/search", "/docs/search.md"], async (c) => {
  // The search form never sends a query string longer than `maxSearch`. A plain-text response needs far less CPU time than an HTML page.
  if (urlOf(c).search.length > maxSearch) return c.body(`${tooLong}\n`, 400, markdownHeaders);
  const { pages, search } = library();
  const text = c.req.query("q") ?? "";
  const words = text.length > maxQueryCharacters ? [] : queryWordsOf(text);
  const isTooLong = text.length > maxQueryCharacters || words.length > maxQueryWords;
  const origin = publicOrigin(c);
  const found = isTooLong ? [] : search.find(words).map((each) => ({ ...each, line: servedFrom(each.line, origin) }));
  if (wantsJson(c)) return c.json({ results: found.slice(0, maxSuggestions).map(suggestionOf) }, 200, uncached);
  const status = isTooLong ? 400 : 200;
  if (urlOf(c).pathname.endsWith(".md") || prefersMarkdown(c))
    return c.body(isTooLong ? `${tooLong}\n` : searchMarkdown(text, found, pages.length), status, markdownHeaders);
  return showPage(
    c,
    { title: "Search the documentation", section: "Documentation", trail: [["Documentation", "/docs"]], status },
    <>
      <Search text={text.slice(0, maxQueryCharacters)} />
      <section class="panel" aria-label="Found">
        {isTooLong ? (
          <p role="alert">{tooLong}</p>
        ) : found.length === 0 ? (
          <Empty>
            {words.length === 0 ? "Search for an operation, an error code, an event or a header." : nothingFound(text, pages.length)}
          </Empty>
        ) : (
          [...Map.groupBy(found, ({ page }) => page.kind)].map(([kind, ofKind]) => (
            <>
              <h2>{kind === "Documentation" ? kind : `${kind}s`}</h2>
              <ul class="lines">
                {ofKind.map((each) => (
                  <li>
                    <a href={pathOf(each)}>{nameOf(each)}</a>
                    <span class="quiet snippet">{each.line}</span>
                  </li>
                ))}
              </ul>
            </>
          ))
        )}
        {found.length === maxFound && <p class="quiet">The best {maxFound} results are shown. Add more words to narrow the results.</p>}
      </section>
    </>,
  );
});
