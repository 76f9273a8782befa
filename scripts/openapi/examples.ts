import { isObject, type Json, type JsonObject, operationsIn, resolve } from "../../src/api/openapi/document.ts";

/**
 * Returns the example of a schema. If the schema has no example, builds an example from the examples of its members. Returns undefined if
 * no example can be built.
 */
export function exampleOf(document: JsonObject, schema: JsonObject): Json | undefined {
  if (typeof schema.$ref === "string") return exampleOf(document, resolve(document, schema.$ref) as JsonObject);
  if (schema.example !== undefined) return schema.example;
  if (Array.isArray(schema.examples) && schema.examples.length > 0) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (Array.isArray(schema.allOf)) return exampleOfAll(document, schema.allOf as JsonObject[]);
  const [alternative] = (schema.oneOf ?? schema.anyOf ?? []) as JsonObject[];
  if (alternative) return exampleOf(document, alternative);
  if (isObject(schema.properties)) return exampleOfObject(document, schema);
  if (isObject(schema.items)) {
    const item = exampleOf(document, schema.items);
    return item === undefined ? undefined : [item];
  }
  return undefined;
}

/** Merges the examples of the parts of an `allOf`. */
function exampleOfAll(document: JsonObject, parts: JsonObject[]): Json | undefined {
  const examples = parts.map((part) => exampleOf(document, part)).filter((example) => example !== undefined);
  return examples.every(isObject) ? Object.assign({}, ...examples) : examples[0];
}

function exampleOfObject(document: JsonObject, { properties, required }: JsonObject): Json {
  const needed = (required ?? []) as string[];
  const members = Object.entries(properties as Record<string, JsonObject>).map(([name, property]) => [name, exampleOf(document, property)]);
  return Object.fromEntries(members.filter(([name, example]) => example !== undefined || needed.includes(name as string)));
}

/** Adds an example to every named schema, and to every request and response body. */
export function addExamples(document: JsonObject): void {
  const add = (content: Json | undefined) => {
    if (!isObject(content)) return;
    for (const media of Object.values(content) as JsonObject[]) {
      if (media.example !== undefined || media.examples !== undefined || !isObject(media.schema)) continue;
      const example = exampleOf(document, media.schema);
      if (example !== undefined) media.example = example;
    }
  };
  const { schemas } = document.components as { schemas: Record<string, JsonObject> };
  for (const schema of Object.values(schemas)) {
    const example = exampleOf(document, schema);
    if (example !== undefined && schema.example === undefined) schema.examples = [example];
  }
  for (const { operation } of operationsIn(document)) {
    add(operation.requestBody?.content);
    for (const response of Object.values(operation.responses) as JsonObject[]) add(response.content);
  }
}
