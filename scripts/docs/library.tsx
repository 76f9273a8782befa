import { type JsonObject, operationsIn } from "../../src/api/openapi/document.ts";
import { CodeTabs } from "../../src/dashboard/components/code-tabs.tsx";
import type { BuiltLibrary } from "../../src/docs/library.ts";
import { type BuiltPage, type DocPage, originPlaceholder } from "../../src/docs/page.ts";
import { Console } from "./console.tsx";
import { builtGroups } from "./contents.tsx";
import { Home } from "./home.tsx";
import { operationPath } from "./markdown.ts";
import { errorPages } from "./pages/errors.ts";
import { eventPages } from "./pages/events.ts";
import { guidePages } from "./pages/guides.ts";
import { indexPage } from "./pages/index.ts";
import { operationPages, operationParts, type Place } from "./pages/operations.ts";
import { schemaPages } from "./pages/schemas.ts";
import { headingsOf, highlight, renderMarkdown } from "./render.ts";
import { buildIndex } from "./search.ts";
import { teamPages } from "./team.ts";

export { guideNames } from "./pages/guides.ts";
export { teamGuides } from "./team.ts";

/**
 * Builds the search index and all pages of the documentation. The sources are an OpenAPI document and the guides. `guides` maps the name of
 * each guide to its text. `team`: the document of the team API, and the guides for teams.
 */
export function buildLibrary(
  document: JsonObject,
  guides: Readonly<Record<string, string>>,
  team: { document: JsonObject; guides: Readonly<Record<string, string>> },
): BuiltLibrary {
  const places = new Map(operationsIn(document).map((place) => [operationPath(place.operation.operationId), place]));
  const plain = docPages(document, guides);
  const pages = plain.map((page): BuiltPage => {
    const place = places.get(page.path);
    if (place) return operationPage(document, page, place);
    if (page.path === "/docs") return { ...page, html: String(<Home document={document} pages={plain} />), headings: [] };
    const html = renderMarkdown(page.markdown);
    return { ...page, html, headings: headingsOf(page.markdown, html) };
  });
  return { pages, groups: builtGroups(document, pages), ...buildIndex(pages), team: teamPages(team.document, team.guides) };
}

/** Returns every page of the documentation. The pages are built from the OpenAPI document, the guides, the event catalogue and the code. */
function docPages(document: JsonObject, guides: Readonly<Record<string, string>>): DocPage[] {
  const pages = [
    ...guidePages(document, originPlaceholder, guides),
    ...operationPages(document),
    ...eventPages(document),
    ...errorPages(document, originPlaceholder),
    ...schemaPages(document),
  ];
  return [indexPage(document, pages), ...pages];
}

/** Returns the page of an operation, whose samples and console stand beside the article. */
function operationPage(document: JsonObject, page: DocPage, place: Place): BuiltPage {
  const { intro, samples, article } = operationParts(document, place);
  const html = renderMarkdown(article);
  return {
    ...page,
    html,
    headings: headingsOf(page.markdown, html),
    intro: renderMarkdown(intro),
    samples: String(
      <CodeTabs name="call" samples={samples.map(([language, name, code]) => [language, code, highlight(code, name)] as const)} />,
    ),
    console: String(<Console document={document} {...place} />),
  };
}
