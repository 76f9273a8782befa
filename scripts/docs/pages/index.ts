import { type JsonObject, type Operation, operationsIn } from "../../../src/api/openapi/document.ts";
import type { DocPage } from "../../../src/docs/page.ts";
import { operationPath, paragraphs } from "../markdown.ts";

export const quickStart = "/docs/guides/quick-start";

const listOf = (pages: readonly DocPage[]) => pages.map(({ title, path, summary }) => `- [${title}](${path}): ${summary}`).join("\n");

/** Returns the names of all tags, in the order of the OpenAPI document. Tags group operations. */
export const tagsOf = (document: JsonObject): string[] => (document.tags as { name: string }[]).map(({ name }) => name);

/** Returns the start page of the documentation, which links to all other pages. */
export function indexPage(document: JsonObject, pages: readonly DocPage[]): DocPage {
  const of = (kind: DocPage["kind"]) => pages.filter((page) => page.kind === kind);
  const byTag = Map.groupBy(operationsIn(document), ({ operation }) => ((operation.tags ?? []) as string[])[0] ?? "");
  const line = ({ method, path, operation }: { method: string; path: string; operation: Operation }) =>
    `- [${operation.summary}](${operationPath(operation.operationId)}): \`${method.toUpperCase()} ${path}\``;
  return {
    path: "/docs",
    title: "Documentation",
    kind: "Documentation",
    summary: "The guides, reference, errors and events of this API.",
    markdown: paragraphs(
      "# Documentation",
      ...(pages.some(({ path }) => path === quickStart)
        ? [`New here? The [quick start](${quickStart}) takes you from a key to a verified webhook in six steps.`]
        : []),
      "## Guides",
      listOf(of("Guide")),
      "## Reference",
      "Every operation with its parameters, responses, errors and samples. For tools, there is [OpenAPI as JSON](/api/v1/openapi.json) and [as YAML](/api/v1/openapi.yaml).",
      ...tagsOf(document).map((tag) => paragraphs(`### ${tag}`, (byTag.get(tag) ?? []).map(line).join("\n"))),
      "## Events",
      listOf(of("Event")),
      "## Errors",
      listOf(of("Error")),
      "## Schemas",
      of("Schema")
        .map(({ title, path }) => `[${title}](${path})`)
        .join(", "),
      "## For machines",
      "Each of these pages is also available as Markdown. Append `.md` to the path, or send `Accept: text/markdown`. [llms.txt](/llms.txt) lists all pages, and the [API catalog](/.well-known/api-catalog) lists the machine-readable documents.",
    ),
  };
}
