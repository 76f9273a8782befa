import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { LineCounter, parseDocument } from "yaml";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";
import { accentsOf } from "./brand-files.ts";
import { settingsFile } from "./files.ts";
import type { Settings } from "./schema.ts";

// Makes what the page /docs/reference loads: the OpenAPI document of the team's own API, and Scalar, which shows it.

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type JsonObject = { [name: string]: Json };
const isObject = (value: Json | undefined): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value);

/** The largest document that has been tried, with room. Cloudflare serves files of up to 25 MiB. */
const maxBytes = 20 * 1024 * 1024;

const refuse = (file: string, message: string) => new CommandError("misuse", `Nothing is done. brand.openapi: ${file}: ${message}`);

function parsed(file: string, text: string): Json {
  // JSON is YAML, too, but its own parser is far faster.
  if (text.trimStart().startsWith("{"))
    try {
      return JSON.parse(text) as Json;
    } catch (error) {
      throw refuse(file, `It is no valid JSON: ${(error as Error).message}`);
    }
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter });
  const [error] = document.errors;
  if (error) throw refuse(file, `It is no valid YAML, at line ${error.linePos?.[0].line ?? "?"}: ${error.message.split("\n")[0]}`);
  return document.toJS({ maxAliasCount: 10_000 }) as Json;
}

/** Returns the value at a JSON pointer like `#/components/schemas/Order`, or undefined. */
function valueAt(document: Json, reference: string): Json | undefined {
  let names: string[];
  try {
    names = decodeURIComponent(reference).slice(2).split("/");
  } catch {
    return undefined;
  }
  return names.reduce<Json | undefined>(
    (value, name) =>
      typeof value === "object" && value !== null ? (value as JsonObject)[name.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined,
    document,
  );
}

/** The members whose values are data of the API, in which `$ref` means nothing. */
const data = new Set(["const", "default", "enum", "example", "examples", "properties", "value"]);

/** Throws for the first reference that leads nowhere, or to another file, which the page could not load, and for an anchor within itself. */
function checkReferences(file: string, document: Json): void {
  const visit = (value: Json, at: string, name: string, parents: readonly Json[]): void => {
    if (typeof value !== "object" || value === null) return;
    if (parents.includes(value)) throw refuse(file, `${at}: The anchor contains itself. Write the reference as $ref.`);
    const reference = isObject(value) ? value.$ref : undefined;
    if (typeof reference === "string" && !data.has(name)) {
      if (!reference.startsWith("#"))
        throw refuse(file, `${at}: The reference "${reference}" leads to another file. Bundle all files into one first.`);
      if (reference.startsWith("#/") && valueAt(document, reference) === undefined)
        throw refuse(file, `${at}: The reference "${reference}" leads nowhere.`);
    }
    for (const [child, each] of Object.entries(value)) {
      // Below an example there are no references. Below `properties` there are schemas.
      if (data.has(name) && name !== "properties" && name !== "examples") continue;
      visit(each, `${at}/${child.replaceAll("~", "~0").replaceAll("/", "~1")}`, child, [...parents, value]);
    }
  };
  visit(document, "#", "", []);
}

/** Reads the OpenAPI document of a team. Throws `CommandError` that says what is wrong with it. */
export function readOpenApi(path: string): JsonObject {
  const file = path.split("/").at(-1) ?? path;
  let text: string;
  try {
    text = readFileSync(path, "utf8").replace(/^\ufeff/, "");
  } catch {
    throw refuse(file, "There is no such file.");
  }
  if (Buffer.byteLength(text) > maxBytes) throw refuse(file, `It has more than ${maxBytes / 1024 / 1024} MiB.`);
  const document = parsed(file, text);
  if (!isObject(document)) throw refuse(file, "It is no OpenAPI document: it must be an object.");
  const { openapi, swagger, info, paths, webhooks } = document;
  if (!/^3\.[012]/.test(String(openapi)) && String(swagger) !== "2.0")
    throw refuse(file, 'It is no OpenAPI document: it must have "openapi" of 3.0, 3.1 or 3.2, or "swagger" of 2.0.');
  if (!isObject(info) || typeof info.title !== "string") throw refuse(file, "It must have a title at #/info/title.");
  if (!isObject(paths) && !isObject(webhooks)) throw refuse(file, "It must have paths.");
  checkReferences(file, document);
  return document;
}

/** Returns the script with the document and the colours of the brand. */
export function documentScript(document: JsonObject, { accent, api_url: apiUrl }: Settings["brand"]): string {
  const { light, dark } = accentsOf(accent === "" ? "#2446c8" : accent);
  const customCss = `.light-mode{--scalar-color-accent:${light}}.dark-mode{--scalar-color-accent:${dark}}`;
  const given = { content: document, customCss, ...(apiUrl !== "" && { servers: [{ url: apiUrl.replace(/\/$/, "") }] }) };
  // A line separator is a line break in older scripts, and `</script>` would end a script in a page.
  return `window.reference = ${JSON.stringify(given).replaceAll("<", "\\u003c").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029")};\n`;
}

/** Writes what the page loads, if the settings name a document. Installs Scalar once. */
export function writeReference({ brand }: Settings): void {
  if (brand.openapi === "") return;
  const document = readOpenApi(join(root, dirname(settingsFile()), brand.openapi));
  const { status } = spawnSync(process.execPath, [join(root, "scripts/install.mjs"), "reference"], { stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new CommandError("failed", "The page of brand.openapi needs a package that could not be installed.");
  const folder = join(root, "public", "brand");
  mkdirSync(folder, { recursive: true });
  const scalar = readFileSync(join(root, "reference/node_modules/@scalar/api-reference/dist/browser/standalone.js"));
  writeFileSync(join(folder, "scalar.js"), scalar);
  writeFileSync(join(folder, "reference.js"), documentScript(document, brand));
}
