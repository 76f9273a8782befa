import { STATUS_CODES } from "node:http";
import { exampleIdNote } from "../../../src/docs/own-ids.ts";
import { type DocPage, originPlaceholder } from "../../../src/docs/page.ts";
import { exampleOrigin } from "../../../src/errors/explanations.ts";
import { isObject, type JsonObject, type Operation, operationsIn, parametersOf, partOf } from "../../../src/openapi/document.ts";
import { errorPath, fence, jsonFence, operationPath, paragraphs, table } from "../markdown.ts";
import { callOf, inCurl, inJavaScript, inPython } from "../samples.ts";
import { codesOf } from "./errors.ts";
import { memberTable, shapesOf, typeOf } from "./schemas.ts";

export interface Place {
  method: string;
  path: string;
  operation: Operation;
}

export function parameterTable(document: JsonObject, { operation }: Place): string {
  const rows = parametersOf(document, operation).map(({ name, in: where, required, description, schema }) => [
    `\`${name}\``,
    String(where),
    typeOf(schema as JsonObject),
    required === true ? "yes" : "",
    `${description ?? (schema as JsonObject).description ?? ""}${(schema as JsonObject).default === undefined ? "" : ` By default \`${(schema as JsonObject).default}\`.`}`,
  ]);
  return rows.length === 0 ? "" : paragraphs("## Parameters", table(["Name", "In", "Type", "Required", "Description"], rows));
}

export function bodyOf(document: JsonObject, { operation }: Place): string {
  const { requestBody } = operation;
  if (!requestBody) return "";
  const media = (requestBody.content as Record<string, JsonObject>)["application/json"];
  if (!media) return "";
  const schema = partOf(document, media.schema as JsonObject);
  return paragraphs(
    "## Body",
    `JSON${requestBody.required === true ? "" : ", which can be omitted"}. ${String(schema.description ?? "")}`,
    memberTable(schema, "Required"),
    media.example !== undefined && jsonFence(media.example),
  );
}

export function responsesOf(document: JsonObject, { operation }: Place): string {
  const served = Object.entries(operation.responses)
    .filter(([status]) => Number(status) < 400)
    .map(([status, response]) => {
      const { description, headers, content } = partOf(document, response as JsonObject);
      const [media] = Object.values((content ?? {}) as Record<string, JsonObject>);
      const shapes = isObject(media?.schema) ? shapesOf(media.schema) : "";
      return paragraphs(
        `### ${status} ${STATUS_CODES[status] ?? ""}`,
        `${description}${shapes && ` Its body is ${shapes}.`}`,
        `Headers: ${Object.keys(headers as JsonObject)
          .map((name) => `\`${name}\``)
          .join(", ")}.`,
        media?.example !== undefined && jsonFence(media.example),
      );
    });
  return paragraphs("## Responses", ...served);
}

function errorsOf(document: JsonObject, { operation }: Place, instance: string): string {
  const all = codesOf(document, operation.responses);
  if (all.length === 0) return "";
  return paragraphs(
    "## Errors",
    "The [errors guide](/docs/guides/errors) describes the error responses. Each code has its own page.",
    ...all.map(({ status, codes, example }) =>
      paragraphs(
        `### ${status} ${STATUS_CODES[status] ?? ""}`,
        codes.map((code) => `[\`${code}\`](${errorPath(code)})`).join(", "),
        jsonFence({ ...(example as object), instance }),
      ),
    ),
  );
}

/** Builds the documentation page of an operation. The page starts with a curl sample. */
function operationPage(document: JsonObject, place: Place): DocPage {
  const { method, path, operation } = place;
  const call = callOf(document, place, originPlaceholder);
  return {
    path: operationPath(operation.operationId),
    title: String(operation.summary),
    kind: "Operation",
    summary: `${method.toUpperCase()} ${path}. ${String(operation.description)}`,
    markdown: paragraphs(
      fence("sh", inCurl(call)),
      `# ${operation.summary}`,
      `\`${method.toUpperCase()} ${path}\``,
      String(operation.description),
      path.includes("{") && exampleIdNote,
      parameterTable(document, place),
      bodyOf(document, place),
      "## The same in other languages",
      "### JavaScript",
      fence("js", inJavaScript(call)),
      "### Python",
      fence("python", inPython(call)),
      responsesOf(document, place),
      errorsOf(document, place, new URL(call.url).pathname).replaceAll(exampleOrigin, originPlaceholder),
    ),
  };
}

/** Returns one documentation page for each operation. */
export const operationPages = (document: JsonObject): DocPage[] => operationsIn(document).map((place) => operationPage(document, place));
