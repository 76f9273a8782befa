/** @module-tag long */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { type Call, call, makeTenant } from "../support/client.ts";
import { document, expectDocumented, operations, type Walked } from "../support/documented.ts";
import { sampleOf } from "../support/operations.ts";

// Requests made from the document's schemas, fitting and not: no answer is a fault of the service, of an undocumented status, with
// undocumented headers or outside of its schema. The long form sends twenty times as many.

const runs = inject("isLong") ? 100 : 20;

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

type Described = Walked & { parameters?: Parameter[]; requestBody?: { content: Record<string, { schema: Schema }> } };

const resolved = (schema: Schema): Schema =>
  schema.$ref ? resolved(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] as Schema) : schema;

const time = fc.date({ min: new Date(0), max: new Date("2100-01-01T00:00:00Z"), noInvalidDate: true }).map((date) => date.toISOString());

function textOf({ format, pattern, minLength = 0, maxLength = 40 }: Schema): fc.Arbitrary<string> {
  if (format === "date-time") return time;
  const plain = fc.string({ unit: "grapheme", minLength, maxLength: Math.min(maxLength, 40) });
  return pattern ? fc.oneof(fc.stringMatching(new RegExp(pattern)), plain) : plain;
}

/** What fits a schema. */
function fitting(given: Schema): fc.Arbitrary<unknown> {
  const schema = resolved(given);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(fitting));
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => fitting({ ...schema, type })));
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
      return fc.array(fitting(schema.items ?? {}), { minLength: schema.minItems ?? 0, maxLength: Math.min(schema.maxItems ?? 5, 5) });
    case "object":
      return fc.record(Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, each]) => [name, fitting(each)])), {
        requiredKeys: schema.required ?? [],
      });
    default:
      return fc.jsonValue();
  }
}

const odd = fc.oneof(
  fc.constantFrom(
    "",
    " ",
    "\0",
    "null",
    "-1",
    "0x10",
    "%",
    "\ud800",
    "__proto__",
    "x".repeat(3000),
    "9".repeat(40),
    "../..",
    "'; DROP TABLE users; --",
  ),
  fc.string({ unit: "binary", maxLength: 30 }),
);

/** Returns a value with one part replaced by something else, removed or doubled. */
const bent = (value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.tuple(value, fc.jsonValue(), odd, fc.nat()).map(([good, other, text, pick]) => {
    if (typeof good !== "object" || good === null || Array.isArray(good)) return pick % 2 === 0 ? other : text;
    const names = Object.keys(good);
    const name = names[pick % Math.max(1, names.length)] ?? "x";
    switch (pick % 5) {
      case 0:
        return { ...good, [name]: other };
      case 1:
        return { ...good, [name]: text };
      case 2:
        return Object.fromEntries(Object.entries(good).filter(([each]) => each !== name));
      case 3:
        return { ...good, [text]: other };
      default:
        return [good];
    }
  });

const mostly = <Value>(good: fc.Arbitrary<Value>, bad: fc.Arbitrary<Value>) =>
  fc.oneof({ arbitrary: good, weight: 3 }, { arbitrary: bad, weight: 1 });

/** The query, the headers and the body of a request to an operation. */
function requestsOf(operation: Described): fc.Arbitrary<{ query: string; sent: Call; id: string | null }> {
  const parameters = (operation.parameters ?? []).filter(({ in: place }) => place !== "path");
  const named = (place: Parameter["in"]) =>
    fc.record(
      Object.fromEntries(
        parameters
          .filter((each) => each.in === place)
          .map(({ name, schema }) => [name, mostly(fitting(schema).map(asText), place === "header" ? fc.constantFrom("", "x", '"') : odd)]),
      ),
      { requiredKeys: parameters.filter((each) => each.in === place && each.required).map(({ name }) => name) },
    );
  const [[mediaType, content] = []] = Object.entries(operation.requestBody?.content ?? {});
  const body = content ? mostly(fitting(content.schema), bent(fitting(content.schema))) : fc.constant(undefined);
  const type = mediaType
    ? mostly(fc.constant(mediaType), fc.constantFrom("text/plain", "application/json; charset=latin1", "json"))
    : fc.constant(null);
  const id = mostly(fc.constant(null), odd);
  return fc.record({ query: named("query"), headers: named("header"), body, type, id }).map(({ query, headers, body, type, id }) => ({
    query: encoded(query as Record<string, string | string[]>),
    sent: {
      ...sendable(headers as Record<string, string>),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(type && { "Content-Type": type }),
    },
    id,
  }));
}

/** A parameter as it is sent; a list is the parameter repeated. */
const asText = (value: unknown): string | string[] => (Array.isArray(value) ? value.map(String) : String(value));

const encoded = (query: Record<string, string | string[]>) => {
  const pairs = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each.toWellFormed()]));
  const text = new URLSearchParams(pairs).toString();
  return text && `?${text}`;
};

/** Those that `Headers` takes: others reach no service. */
const sendable = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).filter(([, value]) => /^[\x20-\x7e\x80-\xff]*$/.test(value)));

describe.each(operations.map((operation) => [operation.operationId, operation as unknown as Described] as const))("%s", (_, operation) => {
  it("responds as documented to every request", async () => {
    const shared = await makeTenant();
    const isPublic = operation.security.length === 0;
    await fc.assert(
      fc.asyncProperty(requestsOf(operation), async ({ query, sent, id }) => {
        const real = sampleOf(operation).id;
        // One of its own where each request makes a thing first: an account may have few webhooks.
        const tenant = real ? await makeTenant() : shared;
        const path = real
          ? operation.path.replace("{id}", id === null ? await real(tenant) : encodeURIComponent(id.toWellFormed()))
          : operation.path;
        const answer = await call(operation.method, path + query, { ...sent, ...(!isPublic && { key: tenant.key }) });
        // An id that ends the path, or makes it another one.
        if (answer.body?.code === "method_not_allowed" || (answer.status === 404 && id !== null)) return;
        expect(answer.status).toBeLessThan(500);
        expectDocumented(operation, answer);
      }),
      { numRuns: runs, endOnFailure: false },
    );
  }, 600_000);
});
