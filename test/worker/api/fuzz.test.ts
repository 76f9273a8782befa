/** @module-tag long */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { type Call, call, makeTenant } from "../support/client.ts";
import { type DocumentedOperation, document, expectDocumented, operations } from "../support/documented.ts";
import { sampleOf } from "../support/operations.ts";

// These tests send random requests. Some requests match the schemas of the OpenAPI document, and other requests do not. No response may be
// a server error. Each response must have a documented status, documented headers and a body that matches its schema. The long form of a
// test sends 25 times as many requests as its short form.

const runs = inject("isLong") ? 60 : 4;

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  format?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
}

interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  schema: Schema;
}

type Operation = DocumentedOperation & { parameters?: Parameter[]; requestBody?: { content: Record<string, { schema: Schema }> } };

const resolve = (schema: Schema): Schema =>
  schema.$ref ? resolve(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] as Schema) : schema;

const time = fc.date({ min: new Date(0), max: new Date("2100-01-01T00:00:00Z"), noInvalidDate: true }).map((date) => date.toISOString());

/** Generates strings for a schema. If the schema has a pattern, about half of the strings ignore the pattern. */
function textOf({ format, pattern, minLength = 0, maxLength = 40 }: Schema): fc.Arbitrary<string> {
  if (format === "date-time") return time;
  const plain = fc.string({ unit: "grapheme", minLength, maxLength: Math.min(maxLength, 40) });
  return pattern ? fc.oneof(fc.stringMatching(new RegExp(pattern)), plain) : plain;
}

/** Generates values for a schema. The values match the schema, except that some strings do not match their pattern. */
function generatorOf(unresolved: Schema): fc.Arbitrary<unknown> {
  const schema = resolve(unresolved);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(generatorOf));
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => generatorOf({ ...schema, type })));
  switch (schema.type) {
    case "string":
      return textOf(schema);
    case "integer":
      return fc.integer({ min: schema.minimum ?? -10, max: Math.min(schema.maximum ?? 10_000, 10_000) });
    case "number":
      return fc.double({ noNaN: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(generatorOf(schema.items ?? {}), { minLength: schema.minItems ?? 0, maxLength: Math.min(schema.maxItems ?? 5, 5) });
    case "object":
      return fc.record(Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, each]) => [name, generatorOf(each)])), {
        requiredKeys: schema.required ?? [],
      });
    default:
      return fc.jsonValue();
  }
}

const unusualText = fc.oneof(
  fc.constantFrom("", " ", "\0", "null", "-1", "0x10", "%", "\ud800", "__proto__", "../..", "'; DROP TABLE users; --"),
  fc.constantFrom("x".repeat(3000), "9".repeat(40)),
  fc.string({ unit: "binary", maxLength: 30 }),
);

/**
 * Changes each generated value. If the value is an object, replaces, removes or adds one member, or puts the object into a list. If the
 * value is not an object, replaces the whole value.
 */
const changed = (value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.tuple(value, fc.jsonValue(), unusualText, fc.nat()).map(([original, other, text, pick]) => {
    if (typeof original !== "object" || original === null || Array.isArray(original)) return pick % 2 === 0 ? other : text;
    const names = Object.keys(original);
    const name = names[pick % Math.max(1, names.length)] ?? "x";
    switch (pick % 5) {
      case 0:
        return { ...original, [name]: other };
      case 1:
        return { ...original, [name]: text };
      case 2:
        return Object.fromEntries(Object.entries(original).filter(([each]) => each !== name));
      case 3:
        return { ...original, [text]: other };
      default:
        return [original];
    }
  });

const mostly = <Value>(usual: fc.Arbitrary<Value>, unusual: fc.Arbitrary<Value>) =>
  fc.oneof({ arbitrary: usual, weight: 3 }, { arbitrary: unusual, weight: 1 });

/** Generates requests to an operation. `id` is the id in the path. If `id` is null, the path contains the id of an existing resource. */
function requestsOf(operation: Operation): fc.Arbitrary<{ query: string; request: Call; id: string | null }> {
  const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in !== "path");
  const parametersIn = (place: Parameter["in"]) =>
    fc.record(
      Object.fromEntries(
        parameters
          .filter((each) => each.in === place)
          .map(({ name, schema }) => [
            name,
            mostly(generatorOf(schema).map(serialize), place === "header" ? fc.constantFrom("", "x", '"') : unusualText),
          ]),
      ),
      { requiredKeys: parameters.filter((each) => each.in === place && each.required).map(({ name }) => name) },
    );
  const [[mediaType, content] = []] = Object.entries(operation.requestBody?.content ?? {});
  const body = content ? mostly(generatorOf(content.schema), changed(generatorOf(content.schema))) : fc.constant(undefined);
  const type = mediaType
    ? mostly(fc.constant(mediaType), fc.constantFrom("text/plain", "application/json; charset=latin1", "json"))
    : fc.constant(null);
  const id = mostly(fc.constant(null), unusualText);
  return fc
    .record({ query: parametersIn("query"), headers: parametersIn("header"), body, type, id })
    .map(({ query, headers, body, type, id }) => ({
      query: encodeQuery(query as Record<string, string | string[]>),
      request: {
        ...validHeaders(headers as Record<string, string>),
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(type && { "Content-Type": type }),
      },
      id,
    }));
}

/**
 * Converts the value of a parameter to text. If the value is a list, returns one text for each item. The request then repeats the
 * parameter.
 */
const serialize = (value: unknown): string | string[] => (Array.isArray(value) ? value.map(String) : String(value));

const encodeQuery = (query: Record<string, string | string[]>) => {
  const pairs = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each.toWellFormed()]));
  const text = new URLSearchParams(pairs).toString();
  return text && `?${text}`;
};

/** Removes the headers that the class `Headers` rejects. No client can send such headers. */
const validHeaders = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).filter(([, value]) => /^[\x20-\x7e\x80-\xff]*$/.test(value)));

describe.each(operations.map((operation) => [operation.operationId, operation as unknown as Operation] as const))("%s", (_, operation) => {
  it("responds as documented to random requests", async () => {
    const shared = await makeTenant();
    const isPublic = operation.security.length === 0;
    await fc.assert(
      fc.asyncProperty(requestsOf(operation), async ({ query, request, id }) => {
        const createResource = sampleOf(operation).id;
        // An account may have only a few webhooks. If a resource must exist before the request, the test therefore creates a new account.
        const tenant = createResource ? await makeTenant() : shared;
        const path = createResource
          ? operation.path.replace("{id}", id === null ? await createResource(tenant) : encodeURIComponent(id.toWellFormed()))
          : operation.path;
        const response = await call(operation.method, path + query, { ...request, ...(!isPublic && { key: tenant.key }) });
        // Some random ids make the path match another route.
        if (response.body?.code === "method_not_allowed" || (response.status === 404 && id !== null)) return;
        expect(response.status).toBeLessThan(500);
        expectDocumented(operation, response);
      }),
      { numRuns: runs, endOnFailure: false },
    );
  }, 600_000);
});
