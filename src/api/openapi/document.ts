import { servesSamples } from "../../db/registry/manifests.ts";
import { defaultSettings } from "../../lib/default-settings.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { settings } from "../../lib/settings.ts";

// Types and functions to read and traverse the OpenAPI document as plain JSON.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [name: string]: Json;
}

export const isObject = (node: Json | undefined): node is JsonObject => typeof node === "object" && node !== null && !Array.isArray(node);

/** Returns the part of the document that a reference (`#/...`) points to. If the last name in the reference does not exist, returns null. */
export const resolve = (document: Json, ref: string): Json =>
  ref
    .slice("#/".length)
    .split("/")
    .reduce<Json>((node, name) => (node as JsonObject)[name.replaceAll("~1", "/").replaceAll("~0", "~")] ?? null, document);

/** Returns a part of the document. If the given part is a reference, returns the target of the reference. */
export const partOf = (document: JsonObject, part: Json | undefined): JsonObject =>
  isObject(part) && typeof part.$ref === "string" ? (resolve(document, part.$ref) as JsonObject) : (part as JsonObject);

/** Returns the parameters of an operation. References to parameters are resolved. */
export const parametersOf = (document: JsonObject, operation: Operation): JsonObject[] =>
  (operation.parameters ?? []).map((parameter) => partOf(document, parameter));

/** Converts a name to Pascal case: "task.created" becomes "TaskCreated". */
export const pascalCase = (name: string) => name.replaceAll(/(?:^|[._-])(\w)/g, (_, letter: string) => letter.toUpperCase());

/** Returns the component name of the webhook payload for an event type, for example "TaskCreatedEvent". */
export const payloadName = (type: string) => `${pascalCase(type)}Event`;

/** Finds all members of `node` with the name `wanted`, at any depth. Returns the values of these members. */
export function find(node: Json, wanted: string): Json[] {
  if (typeof node !== "object" || node === null) return [];
  if (Array.isArray(node)) return node.flatMap((each) => find(each, wanted));
  return Object.entries(node).flatMap(([name, child]) => (name === wanted ? [child] : find(child, wanted)));
}

export type Operation = JsonObject & { operationId: string; responses: JsonObject; parameters?: JsonObject[]; requestBody?: JsonObject };

/** Returns all operations of the document. Each entry also contains the method and the path of the operation. */
export const operationsIn = (document: JsonObject): { method: string; path: string; operation: Operation }[] =>
  Object.entries(document.paths as Record<string, JsonObject>).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method, path, operation: operation as Operation })),
  );

/** The generated OpenAPI documents in the assets of the Worker. */
type DocumentPath = "/api/v1/openapi.json" | "/api/v1/openapi.yaml" | "/api/team/openapi.json";

/**
 * Returns a generated OpenAPI document. A deployment without the sample resources has documents of its own. Throws `unavailable` if the document cannot be read.
 */
export async function readDocument({ ASSETS }: { ASSETS: Fetcher }, path: DocumentPath, url: URL): Promise<Response> {
  // The repository has the document of a deployment without settings. The build writes the others.
  const folder = servesSamples ? (settings === defaultSettings ? "" : "with-samples/") : "without-samples/";
  const asset = await ASSETS.fetch(new URL(path.replace("/openapi.", `/${folder}openapi.`), url));
  if (!asset.ok) throw new Failure("unavailable", "The OpenAPI document cannot be read right now. Try again in a moment.");
  return asset;
}

/** Returns the OpenAPI document of the API, parsed. Throws `unavailable` if the document cannot be read. */
export const readOpenApi = async (env: { ASSETS: Fetcher }, url: URL): Promise<JsonObject> =>
  (await readDocument(env, "/api/v1/openapi.json", url)).json();
