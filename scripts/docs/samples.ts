import { isObject, type JsonObject, type Operation, parametersOf } from "../../src/openapi/document.ts";

// One call of an operation as a client makes it. Each sample is run by the tests as it stands, with the key in $API_KEY.

export interface Call {
  method: string;
  url: string;
  isPublic: boolean;
  body: JsonObject | undefined;
}

/** A call that the document's own examples make: with the parameters that are needed, and a body where there is one. */
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

/** In curl, the key in double quotes as `$API_KEY`. */
export function inCurl({ method, url, isPublic, body }: Call): string {
  const lines = [`curl${method === "GET" ? "" : ` -X ${method}`} "${url}"`];
  if (!isPublic) lines.push(`-H "Authorization: Bearer $API_KEY"`);
  if (body) lines.push(`-H "Content-Type: application/json"`, `-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`);
  return lines.join(" \\\n  ");
}

/** In JavaScript, as Node 20 and every browser runs it. */
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

/** In Python, with what comes with it. */
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
