import { isObject, type Json, type JsonObject, type Operation, operationsIn, resolve } from "../../src/api/openapi/document.ts";
import type { BuiltTeamPage } from "../../src/docs/library.ts";
import { originPlaceholder } from "../../src/docs/page.ts";
import { forwardScheme } from "../../src/team/team-router.ts";
import { fence, paragraphs } from "./markdown.ts";
import { bodyOf, type Place, parameterTable, responsesOf } from "./pages/operations.ts";
import { memberTable } from "./pages/schemas.ts";
import { renderMarkdown } from "./render.ts";

/** The guides for teams, in reading order. Each guide is a file of the project. */
export const teamGuides = {
  "protect-an-existing-api": "docs/team/protect-an-existing-api.md",
  "take-over-an-api": "docs/team/take-over-an-api.md",
  "move-your-keys-here": "docs/team/move-your-keys-here.md",
  "when-it-is-down": "docs/team/when-it-is-down.md",
  "secure-your-origin": "docs/team/secure-your-origin.md",
  changelog: "CHANGELOG.md",
  portal: "integrations/portal/README.md",
  node: "integrations/node/README.md",
  python: "integrations/python/README.md",
  go: "integrations/go/README.md",
} as const;

/** Rewrites links between the files of the project to links between pages. */
function withPageLinks(markdown: string): string {
  const pages = Object.entries(teamGuides).map(([name, file]) => [file.split("/").slice(-2).join("/"), name] as const);
  return markdown.replaceAll(/\]\(((?:\.\.\/)*[\w/-]+\.md)\)/g, (link, target: string) => {
    const found = pages.find(([file]) => file.endsWith(target.replace(/^(?:\.\.\/)*(?:integrations\/)?/, "")));
    return found ? `](/docs/team/${found[1]})` : link;
  });
}

/** Returns the section with the error responses of an operation. */
const errorsOf = ({ responses }: Operation): string =>
  paragraphs(
    "## Errors",
    Object.entries(responses)
      .filter(([status]) => Number(status) >= 400)
      .map(([status, response]) => `- ${status}: ${(response as JsonObject).description}`)
      .join("\n"),
  );

/** Returns a part of the document with each reference to a schema replaced by the schema, because the pages for teams have no pages of schemas. */
function inlined<Part extends Json>(document: JsonObject, part: Part): Part {
  if (Array.isArray(part)) return part.map((each) => inlined(document, each)) as Part;
  if (!isObject(part)) return part;
  const { $ref: reference } = part;
  if (typeof reference === "string" && reference.startsWith("#/components/schemas/"))
    return inlined(document, resolve(document, reference)) as Part;
  return Object.fromEntries(Object.entries(part).map(([name, child]) => [name, inlined(document, child)])) as Part;
}

/** Returns the section with the members of the body of a response that reports success. */
function membersOf({ responses }: Operation): string {
  const [served] = Object.entries(responses).filter(([status]) => status.startsWith("2"));
  const content = (served?.[1] as JsonObject | undefined)?.content as Record<string, { schema: JsonObject }> | undefined;
  const schema = content?.["application/json"]?.schema;
  return schema?.properties ? paragraphs("## Members of the response", memberTable(schema)) : "";
}

function operationPage(document: JsonObject, place: Place): BuiltTeamPage {
  const { method, path, operation } = place;
  const hasBody = operation.requestBody !== undefined;
  const [security] = operation.security as Record<string, string[]>[];
  const curl = [
    `curl${method === "get" ? "" : ` -X ${method.toUpperCase()}`} "${originPlaceholder}${path}"`,
    // Behind a proxy, the header `Authorization` belongs to the client.
    ...(security && forwardScheme in security
      ? [`-H "X-Service-Token: $SERVICE_TOKEN"`, `-H "Authorization: Bearer $API_KEY"`]
      : [`-H "Authorization: Bearer $SERVICE_TOKEN"`]),
    ...(hasBody ? [`-H "Content-Type: application/json" -d @body.json`] : []),
  ].join(" \\\n  ");
  const scope = Object.values(security ?? {})[0]?.[0];
  const markdown = paragraphs(
    `\`${method.toUpperCase()} ${path}\``,
    `${operation.description} ${scope ? `Needs the scope \`${scope}\`.` : "Needs no scope."}`,
    fence("sh", curl),
    parameterTable(document, place),
    bodyOf(document, place),
    responsesOf(document, place),
    membersOf(operation),
    errorsOf(operation),
  );
  return {
    path: `/docs/team/api/${operation.operationId}`,
    title: String(operation.summary),
    group: "Reference",
    html: renderMarkdown(markdown),
  };
}

/** Returns the pages for teams: the guides, and one page for each operation of the team API. `texts`: the text of each guide. */
export function teamPages(document: JsonObject, texts: Readonly<Record<string, string>>): BuiltTeamPage[] {
  const guides = Object.keys(teamGuides).map((name): BuiltTeamPage => {
    const markdown = withPageLinks(texts[name] ?? "");
    return { path: `/docs/team/${name}`, title: /^# (.+)$/m.exec(markdown)?.[1] ?? name, group: "Guides", html: renderMarkdown(markdown) };
  });
  return [
    ...guides,
    ...operationsIn(document).map((place) => operationPage(document, { ...place, operation: inlined(document, place.operation) })),
  ];
}
