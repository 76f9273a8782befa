import { type JsonObject, operationsIn } from "../openapi-document.ts";
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

/** Where everything of the documentation is; the group that one reads in is open. */
export const Contents = ({ document, pages, path }: { document: JsonObject; pages: readonly DocPage[]; path: string }) => (
  <nav class="contents" aria-label="Documentation">
    {groupsOf(document, pages).map(({ name, entries }) => (
      <details open={entries.some((entry) => entry.path === path) || undefined}>
        <summary>{name}</summary>
        <ul>
          {entries.map((entry) => (
            <li>
              <a href={entry.path} aria-current={entry.path === path ? "page" : undefined}>
                {entry.title}
              </a>
            </li>
          ))}
        </ul>
      </details>
    ))}
  </nav>
);
