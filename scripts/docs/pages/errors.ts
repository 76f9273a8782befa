import { type JsonObject, operationsIn, partOf } from "../../../src/api/openapi/document.ts";
import type { DocPage } from "../../../src/docs/page.ts";
import { explanations } from "../../../src/lib/errors/explanations.ts";
import { apiCodes, failureCodes, failures } from "../../../src/lib/errors/failure.ts";
import { problemExample } from "../../problem-example.ts";
import { errorPath, jsonFence, operationPath, paragraphs } from "../markdown.ts";

/** For each error status of an operation, returns the error codes and one example. */
export function codesOf(document: JsonObject, responses: JsonObject): { status: string; codes: string[]; example: unknown }[] {
  return Object.entries(responses)
    .filter(([status]) => Number(status) >= 400)
    .map(([status, response]) => {
      const { content } = partOf(document, response);
      const [media] = Object.values(content as Record<string, { examples: Record<string, { value: unknown }> }>);
      const examples = media?.examples ?? {};
      return { status, codes: Object.keys(examples), example: Object.values(examples)[0]?.value };
    });
}

/** Replaces `{id}` in a path with an example id. */
const pathOf = (path: string) => path.replace("{id}", "key_4fPq2rT8vX0zB6dH");

/** Returns a page for each error code. The `type` in an error response is the URL of the page for the error code. */
export function errorPages(document: JsonObject, origin: string): DocPage[] {
  const operations = operationsIn(document);
  return failureCodes.map((code) => {
    const { status, title } = failures[code];
    const { why, what, header } = explanations[code];
    const answering = operations.filter(({ operation }) =>
      codesOf(document, operation.responses).some(({ codes }) => codes.includes(code)),
    );
    return {
      path: errorPath(code),
      title: `${status} ${code}`,
      // Customers never get an error of the team API, so no list of the documentation has its page.
      kind: apiCodes.includes(code) ? "Error" : "Error of the team API",
      summary: `${title}. ${why}`,
      markdown: paragraphs(
        `# ${status} ${code}`,
        `**${title}.**`,
        "## What happened",
        `The request was not served. ${why}`,
        "## What to do",
        `${what}${header && !what.includes(header) ? ` The header \`${header}\` of the response contains more information for the client.` : ""}`,
        "## Example response",
        jsonFence(
          problemExample(code, {
            instance: pathOf(answering[0]?.path ?? (apiCodes.includes(code) ? "/api/v1/keys" : "/team/v1/accounts")),
            origin,
          }),
        ),
        "## Where it occurs",
        answering.length === operations.length || answering.length > 20
          ? `With ${answering.length} of ${operations.length} operations: all except ${
              operations
                .filter((each) => !answering.includes(each))
                .map(({ operation }) => `[${operation.summary}](${operationPath(operation.operationId)})`)
                .join(", ") || "none"
            }.`
          : answering.length === 0
            ? apiCodes.includes(code)
              ? "This error does not belong to an operation. It occurs for a known path with an unsupported method."
              : "Only the team API, under `/team/v1`, and `/metrics` respond with this error. Requests with API keys never get it."
            : answering.map(({ operation }) => `- [${operation.summary}](${operationPath(operation.operationId)})`).join("\n"),
        "The [errors guide](/docs/guides/errors) describes the format of errors.",
      ),
    };
  });
}
