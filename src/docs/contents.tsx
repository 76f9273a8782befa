import { type JsonObject, operationsIn } from "../openapi/document.ts";
import { type DocPage, operationPath } from "./page.ts";
import { tagsOf } from "./pages/index.ts";

interface Group {
  name: string;
  entries: { title: string; path: string }[];
}

function groupsOf(document: JsonObject, pages: readonly DocPage[]): Group[] {
  const of = (kind: DocPage["kind"]) => pages.filter((page) => page.kind === kind);
  const operations = operationsIn(document);
  return [
    { name: "Guides", entries: of("Guide") },
    ...tagsOf(document).map((name) => ({
      name,
      entries: operations
        .filter(({ operation }) => (operation.tags as string[])[0] === name)
        .map(({ operation }) => ({ title: String(operation.summary), path: operationPath(operation.operationId) })),
    })),
    { name: "Events that are sent", entries: of("Event") },
    { name: "Errors", entries: of("Error") },
    { name: "Schemas", entries: of("Schema") },
  ];
}

/**
 * Returns the navigation as HTML, by the path of the page that is read: it is marked, and its group is open. The list is rendered once,
 * since it has a link to every page.
 */
export function contentsOf(document: JsonObject, pages: readonly DocPage[]): (path: string) => string {
  const groups = groupsOf(document, pages).map(({ name, entries }) => {
    const list = (
      <ul>
        {entries.map(({ title, path }) => (
          <li>
            <a href={path}>{title}</a>
          </li>
        ))}
      </ul>
    );
    return { summary: String(<summary>{name}</summary>), list: String(list), paths: new Set(entries.map(({ path }) => path)) };
  });
  return (path) => {
    const shown = groups.map(({ summary, list, paths }) =>
      paths.has(path)
        ? `<details open>${summary}${list.replace(`href="${path}"`, `href="${path}" aria-current="page"`)}</details>`
        : `<details>${summary}${list}</details>`,
    );
    return `<nav class="contents" aria-label="Documentation">${shown.join("")}</nav>`;
  };
}
