import { type JsonObject, operationsIn } from "../../src/api/openapi/document.ts";
import type { BuiltGroup } from "../../src/docs/library.ts";
import type { DocPage } from "../../src/docs/page.ts";
import { operationPath } from "./markdown.ts";
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
    { name: "Event types", entries: of("Event") },
    { name: "Errors", entries: of("Error") },
    { name: "Schemas", entries: of("Schema") },
  ];
}

/** Renders the groups of the navigation as HTML. */
export const builtGroups = (document: JsonObject, pages: readonly DocPage[]): BuiltGroup[] =>
  groupsOf(document, pages).map(({ name, entries }) => {
    const list = (
      <ul>
        {entries.map(({ title, path }) => (
          <li>
            <a href={path}>{title}</a>
          </li>
        ))}
      </ul>
    );
    return { summary: String(<summary>{name}</summary>), list: String(list), paths: entries.map(({ path }) => path) };
  });
