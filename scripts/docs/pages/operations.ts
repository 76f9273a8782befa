import { STATUS_CODES } from "node:http";
import { isObject, type JsonObject, type Operation, operationsIn, parametersOf, partOf } from "../../../src/api/openapi/document.ts";
import { exampleIdNote } from "../../../src/docs/own-ids.ts";
import { type DocPage, originPlaceholder } from "../../../src/docs/page.ts";
import { exampleOrigin, explanations } from "../../../src/lib/errors/explanations.ts";
import type { FailureCode } from "../../../src/lib/errors/failure.ts";
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

/** Returns the errors of an operation as one table, and the response to the first of them. */
function errorsOf(document: JsonObject, { operation }: Place, instance: string): string {
  const all = codesOf(document, operation.responses);
  const [first] = all;
  if (!first) return "";
  const rows = all.flatMap(({ status, codes }) =>
    codes.map((code) => [status, `[\`${code}\`](${errorPath(code)})`, explanations[code as FailureCode].why]),
  );
  return paragraphs(
    "## Errors",
    table(["Status", "Code", "Cause"], rows),
    "Every error has the same form, which the [errors guide](/docs/guides/errors) describes. An example:",
    jsonFence({ ...(first.example as object), instance }),
  );
}

/** The parts of the page of an operation. The HTML shows the samples beside the article, and the Markdown has them in it. */
export interface OperationParts {
  intro: string;
  samples: readonly (readonly [language: string, fenceName: string, code: string])[];
  article: string;
}

/** Returns the parts of the page of an operation, as Markdown. */
export function operationParts(document: JsonObject, place: Place): OperationParts {
  const { method, path, operation } = place;
  const call = callOf(document, place, originPlaceholder);
  return {
    intro: paragraphs(`\`${method.toUpperCase()} ${path}\``, String(operation.description), path.includes("{") && exampleIdNote),
    samples: [
      ["curl", "sh", inCurl(call)],
      ["JavaScript", "js", inJavaScript(call)],
      ["Python", "python", inPython(call)],
    ],
    article: paragraphs(
      parameterTable(document, place),
      bodyOf(document, place),
      responsesOf(document, place),
      errorsOf(document, place, new URL(call.url).pathname).replaceAll(exampleOrigin, originPlaceholder),
    ),
  };
}

/** Builds the documentation page of an operation. The Markdown starts with a curl sample. */
function operationPage(document: JsonObject, place: Place): DocPage {
  const { method, path, operation } = place;
  const { intro, samples, article } = operationParts(document, place);
  const [[, , curl] = ["", "", ""], ...others] = samples;
  return {
    path: operationPath(operation.operationId),
    title: String(operation.summary),
    kind: "Operation",
    summary: `${method.toUpperCase()} ${path}. ${String(operation.description)}`,
    markdown: paragraphs(
      fence("sh", curl),
      `# ${operation.summary}`,
      intro,
      "## The same in other languages",
      ...others.map(([language, name, code]) => paragraphs(`### ${language}`, fence(name, code))),
      article,
    ),
  };
}

/** Returns one documentation page for each operation. */
export const operationPages = (document: JsonObject): DocPage[] => operationsIn(document).map((place) => operationPage(document, place));
