import { Failure } from "../errors/failure.ts";

// The OpenAPI document as plain JSON: how it is walked and, as a Worker serves it, read.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [name: string]: Json;
}

export const isObject = (node: Json | undefined): node is JsonObject => typeof node === "object" && node !== null && !Array.isArray(node);

/** What a reference within the document leads to; null where it leads nowhere. */
export const resolve = (document: Json, ref: string): Json =>
  ref
    .slice("#/".length)
    .split("/")
    .reduce<Json>((node, name) => (node as JsonObject)[name.replaceAll("~1", "/").replaceAll("~0", "~")] ?? null, document);

/** A part of the document, wherever it stands: what it refers to, where it is a reference. */
export const partOf = (document: JsonObject, part: Json | undefined): JsonObject =>
  isObject(part) && typeof part.$ref === "string" ? (resolve(document, part.$ref) as JsonObject) : (part as JsonObject);

/** The parameters of an operation. */
export const parametersOf = (document: JsonObject, operation: Operation): JsonObject[] =>
  (operation.parameters ?? []).map((parameter) => partOf(document, parameter));

/** "TaskCreated" for "task.created". */
export const pascalCase = (name: string) => name.replaceAll(/(?:^|[._-])(\w)/g, (_, letter: string) => letter.toUpperCase());

/** The component of what webhooks receive of a type of event: "TaskCreatedEvent". */
export const payloadName = (type: string) => `${pascalCase(type)}Event`;

/** Every value of a member of that name. */
export function find(node: Json, wanted: string): Json[] {
  if (typeof node !== "object" || node === null) return [];
  if (Array.isArray(node)) return node.flatMap((each) => find(each, wanted));
  return Object.entries(node).flatMap(([name, child]) => (name === wanted ? [child] : find(child, wanted)));
}

export type Operation = JsonObject & { operationId: string; responses: JsonObject; parameters?: JsonObject[]; requestBody?: JsonObject };

/** Every operation of the document, with where it is. */
export const operationsIn = (document: JsonObject): { method: string; path: string; operation: Operation }[] =>
  Object.entries(document.paths as Record<string, JsonObject>).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method, path, operation: operation as Operation })),
  );

/** The document that is served. Throws `unavailable` where it cannot be read. */
export async function readOpenApi({ ASSETS }: { ASSETS: Fetcher }, url: URL): Promise<JsonObject> {
  const asset = await ASSETS.fetch(new URL("/api/v1/openapi.json", url));
  if (!asset.ok) throw new Failure("unavailable", "The OpenAPI document cannot be read just now. Try again in a moment.");
  return asset.json();
}
