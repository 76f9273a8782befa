import { isObject, type JsonObject, type Operation, parametersOf } from "../../src/api/openapi/document.ts";

// The samples of an operation show the same call in several languages. Their lines are short enough for the column beside the article. The
// tests run every sample unchanged, and set the variable API_KEY to a key.

export interface Call {
  method: string;
  url: string;
  isPublic: boolean;
  body: JsonObject | undefined;
}

/**
 * Builds a call from the examples in the OpenAPI document. The call contains the required parameters. If the document has an example body,
 * the call contains this body too.
 */
export function callOf(
  document: JsonObject,
  { method, path, operation }: { method: string; path: string; operation: Operation },
  origin: string,
): Call {
  const parameters = parametersOf(document, operation);
  const exampleOf = (parameter: JsonObject) => String(parameter.example ?? (parameter.schema as JsonObject).example ?? "");
  let filled = path;
  for (const parameter of parameters) if (parameter.in === "path") filled = filled.replace(`{${parameter.name}}`, exampleOf(parameter));
  const needed = parameters.filter((parameter) => parameter.in === "query" && parameter.required === true);
  const query = new URLSearchParams(needed.map((parameter) => [String(parameter.name), exampleOf(parameter)])).toString();
  const media = (operation.requestBody?.content as JsonObject | undefined)?.["application/json"];
  const body = isObject(media) && isObject(media.example) ? media.example : undefined;
  return {
    method: method.toUpperCase(),
    url: `${origin}${filled}${query && `?${query}`}`,
    isPublic: (operation.security as unknown[]).length === 0,
    body,
  };
}

/** Returns the call as a curl command. The command contains `$API_KEY` in double quotes, so the shell inserts the key. */
export function inCurl({ method, url, isPublic, body }: Call): string {
  const lines = method === "GET" ? [`curl "${url}"`] : [`curl -X ${method}`, `"${url}"`];
  if (!isPublic) lines.push(`-H "Authorization: Bearer $API_KEY"`);
  if (body) lines.push(`-H "Content-Type: application/json"`, `-d '${indented(body, "  ").replaceAll("'", "'\\''")}'`);
  return lines.join(" \\\n  ");
}

/** Returns JSON with one member per line. `by`: the indentation of the line on which the value begins. */
const indented = (value: JsonObject, by: string): string => JSON.stringify(value, null, 2).replaceAll("\n", `\n${by}`);

/** Returns the call as JavaScript code for Node 20 or later. */
export function inJavaScript({ method, url, isPublic, body }: Call): string {
  const headers = [
    ...(isPublic ? [] : ["      Authorization: `Bearer $" + "{key}`,"]),
    ...(body ? [`      "Content-Type": "application/json",`] : []),
  ];
  const options = [
    ...(method === "GET" ? [] : [`    method: "${method}",`]),
    ...(headers.length > 0 ? ["    headers: {", ...headers, "    },"] : []),
    ...(body ? [`    body: JSON.stringify(${indented(body, "    ")}),`] : []),
  ];
  return [
    ...(isPublic ? [] : ["const key = process.env.API_KEY;"]),
    "const response = await fetch(",
    `  "${url}",`,
    ...(options.length > 0 ? ["  {", ...options, "  },"] : []),
    ");",
    "console.log(response.status);",
    "console.log(await response.text());",
  ].join("\n");
}

/** Returns a value as a Python literal with one member per line. `by`: the indentation of the line on which the value begins. */
function inPythonLiteral(value: unknown, by: string): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  const inside = `${by}    `;
  const lines = (begin: string, members: string[], end: string) =>
    members.length === 0 ? begin + end : `${begin}\n${members.map((member) => `${inside}${member},\n`).join("")}${by}${end}`;
  if (Array.isArray(value))
    return lines(
      "[",
      value.map((each) => inPythonLiteral(each, inside)),
      "]",
    );
  if (isObject(value as JsonObject))
    return lines(
      "{",
      Object.entries(value as JsonObject).map(([name, each]) => `${JSON.stringify(name)}: ${inPythonLiteral(each, inside)}`),
      "}",
    );
  return JSON.stringify(value);
}

/** Returns the call as Python code that needs only the standard library. */
export function inPython({ method, url, isPublic, body }: Call): string {
  const headers = [
    ...(isPublic ? [] : [`        "Authorization": "Bearer " + key,`]),
    ...(body ? [`        "Content-Type": "application/json",`] : []),
  ];
  return [
    ...(body ? ["import json"] : []),
    ...(isPublic ? [] : ["import os"]),
    "from urllib.request import Request, urlopen",
    "",
    ...(isPublic ? [] : ['key = os.environ["API_KEY"]']),
    "request = Request(",
    `    "${url}",`,
    ...(method === "GET" ? [] : [`    method="${method}",`]),
    ...(headers.length > 0 ? ["    headers={", ...headers, "    },"] : []),
    ...(body ? [`    data=json.dumps(${inPythonLiteral(body, "    ")}).encode(),`] : []),
    ")",
    "with urlopen(request) as response:",
    "    print(response.status)",
    "    print(response.read().decode())",
  ].join("\n");
}
