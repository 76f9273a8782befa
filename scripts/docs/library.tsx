import type { BuiltLibrary } from "../../src/docs/library.ts";
import { type JsonObject, operationsIn } from "../../src/openapi/document.ts";
import { Console } from "./console.tsx";
import { builtGroups } from "./contents.tsx";
import { operationPath } from "./markdown.ts";
import { docPages } from "./pages.ts";
import { renderMarkdown } from "./render.ts";
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
  const pages = docPages(document, guides).map((page) => {
    const place = places.get(page.path);
    return { ...page, html: renderMarkdown(page.markdown), ...(place && { console: String(<Console document={document} {...place} />) }) };
  });
  return { pages, groups: builtGroups(document, pages), ...buildIndex(pages), team: teamPages(team.document, team.guides) };
}
