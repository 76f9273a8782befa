import { isObject, type JsonObject, type Operation, parametersOf } from "../../src/openapi/document.ts";

// The samples of an operation show the same call in several languages. The tests run every sample unchanged, and set the variable API_KEY
// to a key.

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
  const lines = [`curl${method === "GET" ? "" : ` -X ${method}`} "${url}"`];
  if (!isPublic) lines.push(`-H "Authorization: Bearer $API_KEY"`);
  if (body) lines.push(`-H "Content-Type: application/json"`, `-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`);
  return lines.join(" \\\n  ");
}

/** Returns the call as JavaScript code for Node 20 or later. */
export function inJavaScript({ method, url, isPublic, body }: Call): string {
  const headers = [
    ...(isPublic ? [] : ["    Authorization: `Bearer $" + "{process.env.API_KEY}`,"]),
    ...(body ? [`    "Content-Type": "application/json",`] : []),
  ];
  const options = [
    ...(method === "GET" ? [] : [`  method: "${method}",`]),
    ...(headers.length > 0 ? ["  headers: {", ...headers, "  },"] : []),
    ...(body ? [`  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),`] : []),
  ];
  const request = options.length > 0 ? `fetch("${url}", {\n${options.join("\n")}\n})` : `fetch("${url}")`;
  return `const response = await ${request};\nconsole.log(response.status, await response.text());`;
}

const inPythonLiteral = (value: unknown): string => {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(inPythonLiteral).join(", ")}]`;
  if (isObject(value as JsonObject))
    return `{${Object.entries(value as JsonObject)
      .map(([name, each]) => `${JSON.stringify(name)}: ${inPythonLiteral(each)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
};

/** Returns the call as Python code that needs only the standard library. */
export function inPython({ method, url, isPublic, body }: Call): string {
  const headers = [
    ...(isPublic ? [] : [`        "Authorization": "Bearer " + os.environ["API_KEY"],`]),
    ...(body ? [`        "Content-Type": "application/json",`] : []),
  ];
  const imports = [...(body ? ["json"] : []), ...(isPublic ? [] : ["os"]), "urllib.request"].join(", ");
  return [
    `import ${imports}`,
    "",
    "request = urllib.request.Request(",
    `    "${url}",`,
    ...(method === "GET" ? [] : [`    method="${method}",`]),
    ...(headers.length > 0 ? ["    headers={", ...headers, "    },"] : []),
    ...(body ? [`    data=json.dumps(${inPythonLiteral(body)}).encode(),`] : []),
    ")",
    "with urllib.request.urlopen(request) as response:",
    "    print(response.status, response.read().decode())",
  ].join("\n");
}
