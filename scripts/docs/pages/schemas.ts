import { isObject, type Json, type JsonObject } from "../../../src/api/openapi/document.ts";
import type { DocPage } from "../../../src/docs/page.ts";
import { jsonFence, paragraphs, schemaPath, table } from "../markdown.ts";

const nameIn = (ref: Json | undefined) => String(ref).split("/").at(-1) ?? "";

/** Describes the type of a schema in a few words, for example "string or null, date-time". */
export function typeOf(schema: JsonObject): string {
  if (schema.$ref !== undefined) return `[${nameIn(schema.$ref)}](${schemaPath(nameIn(schema.$ref))})`;
  const parts = ((schema.allOf ?? schema.anyOf ?? schema.oneOf ?? []) as JsonObject[]).map(typeOf);
  if (parts.length > 0) return [...new Set(parts.filter((part) => part !== ""))].join(" or ");
  if (schema.const !== undefined) return `\`${schema.const}\``;
  const types = ([] as Json[])
    .concat(schema.type ?? [])
    .map((type) => (type === "array" && isObject(schema.items) ? `list of ${typeOf(schema.items)}` : String(type)));
  return [types.join(" or "), schema.format].filter(Boolean).join(", ");
}

/**
 * Returns Markdown links to the named schemas among the alternatives of a schema, for example "[Key](...)". Returns an empty string if no
 * alternative has a name.
 */
export const shapesOf = (schema: JsonObject): string =>
  ((schema.oneOf ?? schema.anyOf ?? [schema]) as JsonObject[])
    .filter(({ $ref }) => $ref !== undefined)
    .map(typeOf)
    .join(" or ");

/** Describes the bounds and the default value of a schema in a few words. */
function boundsOf(schema: JsonObject): string {
  const words: string[] = [];
  const say = (name: string, text: (value: Json) => string) => {
    const value = schema[name];
    // Leave out the bounds of safe integers, because every integer schema has these bounds.
    if (value !== undefined && Math.abs(Number(value)) !== Number.MAX_SAFE_INTEGER) words.push(text(value));
  };
  say("minLength", (value) => `at least ${value} character${value === 1 ? "" : "s"}`);
  say("maxLength", (value) => `at most ${value} characters`);
  say("minimum", (value) => `at least ${value}`);
  say("maximum", (value) => `at most ${value}`);
  say("minItems", (value) => `at least ${value}`);
  say("maxItems", (value) => `at most ${value} of them`);
  if (isObject(schema.items) && schema.items.maxLength !== undefined) words.push(`each at most ${schema.items.maxLength} characters`);
  say("default", (value) => `by default \`${JSON.stringify(value)}\``);
  return words.length > 0 ? ` (${words.join(", ")})` : "";
}

/** Returns one table row for each member of an object schema. The row of a nested member shows the full path of the member. */
export function rowsOf(schema: JsonObject, prefix = ""): string[][] {
  const required = new Set((schema.required ?? []) as string[]);
  return Object.entries((schema.properties ?? {}) as Record<string, JsonObject>).flatMap(([name, property]) => {
    const row = [
      `\`${prefix}${name}\``,
      typeOf(property),
      required.has(name) ? "yes" : "",
      `${String(property.description ?? "")}${boundsOf(property)}`,
    ];
    const inner = isObject(property.items) ? property.items : property;
    return [row, ...(inner.properties ? rowsOf(inner, `${prefix}${name}${inner === property ? "." : "[]."}`) : [])];
  });
}

export const memberTable = (schema: JsonObject, requiredHead = "Always there") =>
  table(["Member", "Type", requiredHead, "Description"], rowsOf(schema));

/** Returns a page for each named schema. */
export const schemaPages = (document: JsonObject): DocPage[] =>
  Object.entries((document.components as { schemas: Record<string, JsonObject> }).schemas).map(([name, schema]) => {
    const example = schema.example ?? (schema.examples as Json[] | undefined)?.[0];
    return {
      path: schemaPath(name),
      title: name,
      kind: "Schema",
      summary: String(schema.description ?? ""),
      markdown: paragraphs(
        `# ${name}`,
        String(schema.description ?? ""),
        schema.oneOf ? `One of ${shapesOf(schema)}.` : memberTable(schema),
        example !== undefined && paragraphs("## Example", jsonFence(example)),
      ),
    };
  });
