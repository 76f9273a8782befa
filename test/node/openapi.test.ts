import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, it } from "vitest";
import { root } from "../../scripts/root.ts";
import { isObject, type Json, type JsonObject, operationsIn, pascalCase, resolve } from "../../src/api/openapi/document.ts";
import { apiCodes, fieldErrorCodes } from "../../src/lib/errors/failure.ts";
import { fieldCode } from "../../src/lib/inputs/field-code.ts";
import { eventCatalogue } from "../../src/outbox/catalogue.ts";

// Checks that the published OpenAPI document is complete enough to generate a reference and a client.

const document = JSON.parse(readFileSync(join(root, "public/api/v1/openapi.json"), "utf8")) as JsonObject;
const components = document.components as Record<string, JsonObject>;
const operations = operationsIn(document);
const resolved = (part: Json | undefined): JsonObject =>
  isObject(part) && typeof part.$ref === "string" ? (resolve(document, part.$ref) as JsonObject) : (part as JsonObject);

/** Yields each example in the document, with the schema and the position of the example. Throws if a body has no example. */
function* examples(): Generator<{ at: string; schema: JsonObject; example: Json }> {
  const ofContent = function* (at: string, content: Json | undefined) {
    if (!isObject(content)) return;
    for (const media of Object.values(content) as JsonObject[]) {
      const named = isObject(media.examples) ? Object.values(media.examples).map((each) => (each as JsonObject).value as Json) : [];
      const all = media.example === undefined ? named : [media.example, ...named];
      if (all.length === 0) throw new Error(`${at} has no example`);
      for (const example of all) yield { at, schema: media.schema as JsonObject, example };
    }
  };
  for (const { operation } of operations) {
    yield* ofContent(`${operation.operationId} body`, operation.requestBody?.content);
    for (const [status, response] of Object.entries(operation.responses))
      yield* ofContent(`${operation.operationId} ${status}`, resolved(response).content);
    for (const parameter of (operation.parameters ?? []).map(resolved)) {
      const schema = parameter.schema as JsonObject;
      const example = parameter.example ?? schema.example;
      if (example !== undefined) yield { at: `${operation.operationId} ${parameter.name}`, schema, example };
    }
  }
  for (const [type, item] of Object.entries(document.webhooks as Record<string, { post: JsonObject }>))
    yield* ofContent(type, (item.post.requestBody as JsonObject).content);
}

describe("The OpenAPI document", () => {
  it("describes each operation, parameter, member and enum value", () => {
    const missing: string[] = [];
    const describeIn = (schema: Json | undefined, at: string): void => {
      if (!isObject(schema) || schema.$ref !== undefined) return;
      if (schema.description === undefined) missing.push(at);
      for (const value of (schema.enum ?? []) as Json[])
        if (value !== null && !String(schema.description).includes(`\`${value}\``)) missing.push(`${at}: ${value}`);
      for (const [name, member] of Object.entries((schema.properties as JsonObject | undefined) ?? {})) describeIn(member, `${at}.${name}`);
      if (isObject(schema.items) && (schema.items.properties || schema.items.enum))
        for (const [name, member] of Object.entries((schema.items.properties as JsonObject | undefined) ?? {}))
          describeIn(member, `${at}[].${name}`);
    };
    for (const [name, schema] of Object.entries(components.schemas as JsonObject)) describeIn(schema, name);
    for (const { operation } of operations) {
      if (typeof operation.description !== "string" || operation.description.length < 40) missing.push(operation.operationId);
      for (const parameter of (operation.parameters ?? []).map(resolved)) {
        if (!parameter.description && !(parameter.schema as JsonObject).description)
          missing.push(`${operation.operationId} ${parameter.name}`);
      }
    }
    expect(missing).toEqual([]);
  });

  it("has an example for each body, and each example matches its schema", () => {
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
    ajv.addSchema({ $id: "document", ...document });
    const invalid: string[] = [];
    for (const { at, schema, example } of examples()) {
      const validate = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')));
      if (!validate(example)) invalid.push(`${at}: ${ajv.errorsText(validate.errors)}`);
    }
    expect(invalid).toEqual([]);
  });

  it("documents each error code for at least one operation, except method_not_allowed", () => {
    const documented = new Set(
      operations.flatMap(({ operation }) =>
        Object.entries(operation.responses)
          .filter(([status]) => Number(status) >= 400)
          .flatMap(([, response]) =>
            Object.values(resolved(response).content as Record<string, JsonObject>).flatMap((media) =>
              Object.keys(media.examples as object),
            ),
          ),
      ),
    );
    // No operation documents `method_not_allowed`. This error code means that the path has no operation for the method.
    expect(apiCodes.filter((code) => !documented.has(code))).toEqual(["method_not_allowed"]);
  });

  it("has the webhook request of each event type", () => {
    expect(Object.keys(document.webhooks as object)).toEqual(eventCatalogue.types);
  });
});

/** Returns the content of one response of an operation, by media type. `status`: the status code of the response. */
function contentOf(operationId: string, status: string): Record<string, JsonObject> {
  const found = operations.find(({ operation }) => operation.operationId === operationId);
  return (found?.operation.responses[status] as JsonObject | undefined)?.content as Record<string, JsonObject>;
}

/** Yields each object in the document, with the position of the object. */
function* objectsIn(node: Json | undefined, at = "#"): Generator<{ at: string; object: JsonObject }> {
  if (typeof node !== "object" || node === null) return;
  if (isObject(node)) yield { at, object: node };
  for (const [name, child] of Object.entries(node)) yield* objectsIn(child as Json, `${at}/${name}`);
}

describe("The OpenAPI document, for code generators,", () => {
  it("compiles in a strict validator with the usual formats", () => {
    const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, validateFormats: true });
    (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
    ajv.addVocabulary([
      "example",
      "discriminator",
      "x-extensible-enum",
      "openapi",
      "info",
      "servers",
      "tags",
      "externalDocs",
      "components",
      "paths",
      "webhooks",
    ]);
    ajv.addSchema({ $id: "document", ...document });
    for (const name of Object.keys(components.schemas as object))
      expect(() => ajv.compile({ $ref: `document#/components/schemas/${name}` }), name).not.toThrow();
  });

  it("has no object with both `example` and `examples`", () => {
    const both = [...objectsIn(document)].filter(({ object }) => object.example !== undefined && Array.isArray(object.examples));
    expect(both.map(({ at }) => at)).toEqual([]);
  });

  it("gives shared components descriptive names without numbers", () => {
    for (const kind of ["parameters", "responses", "schemas"])
      expect(Object.keys(components[kind] as object).filter((name) => /\d$/.test(name))).toEqual([]);
    expect(Object.keys(components.parameters as object)).toEqual(
      expect.arrayContaining(["idOfTask", "idOfKey", "keyId", "IdempotencyKey"]),
    );
  });

  it("has unique names for schemas and for enums that a generator names by schema and member", () => {
    const schemas = components.schemas as Record<string, { properties?: Record<string, JsonObject> }>;
    const names = Object.entries(schemas).flatMap(([name, { properties = {} }]) => [
      name,
      ...Object.keys(properties)
        .filter((member) => properties[member]?.enum !== undefined || properties[member]?.const !== undefined)
        .map((member) => `${name}${pascalCase(member)}`),
    ]);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("names the required scope in the description of each operation", () => {
    for (const { operation } of operations) {
      const [requirement] = operation.security as Record<string, string[]>[];
      const [scope] = Object.values(requirement ?? {})[0] ?? [];
      const ofKey = scope === undefined ? "Requires a key, with any scopes." : `scope \`${scope}\`.`;
      expect(operation.description).toContain(requirement ? ofKey : "Requires no key.");
    }
  });

  it("has a schema for each event type, for webhook requests and for stored events, and a union of each kind", () => {
    const schemas = components.schemas as Record<string, JsonObject>;
    const refOf = (name: string) => `#/components/schemas/${name}`;
    const nameOf = (type: string) => `${type.replaceAll(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase())}Event`;
    for (const [union, schemaNameOf] of [
      ["WebhookEvent", nameOf],
      ["Event", (type: string) => `Stored${nameOf(type)}`],
    ] as const) {
      const refs = eventCatalogue.types.map((type) => [type, refOf(schemaNameOf(type))]);
      expect(schemas[union]?.discriminator).toEqual({ propertyName: "type", mapping: Object.fromEntries(refs) });
      expect(schemas[union]?.oneOf).toEqual(refs.map(([, $ref]) => ({ $ref })));
      for (const { type, schema } of eventCatalogue.kinds) {
        const { properties, required } = schemas[schemaNameOf(type)] as { properties: Record<string, JsonObject>; required: string[] };
        expect([properties.type?.const, properties.data]).toEqual([type, { $ref: refOf(schema) }]);
        expect(required).toEqual(expect.arrayContaining(["type", "data"]));
      }
    }
    for (const [type, item] of Object.entries(document.webhooks as Record<string, { post: JsonObject }>)) {
      const { content } = item.post.requestBody as { content: Record<string, JsonObject> };
      expect(content["application/json"]?.schema).toEqual({ $ref: refOf(nameOf(type)) });
    }
    expect(schemas.EventPage).toHaveProperty("properties.data.items", { $ref: refOf("Event") });
    expect(schemas.MemberJoinedEvent?.additionalProperties ?? schemas.Member?.additionalProperties).toBeUndefined();
  });

  it("allows a null secret only in replayed responses", () => {
    const schemas = components.schemas as Record<string, { properties: Record<string, JsonObject> }>;
    const schemaOf = (id: string, status: string) => contentOf(id, status)["application/json"]?.schema;
    for (const [resource, member, creation, rotation] of [
      ["Key", "secret_key", "createKey", "rotateKey"],
      ["Webhook", "secret", "createWebhook", "rotateWebhookSecret"],
    ] as const) {
      const refs = [`${resource}WithSecret`, `Replayed${resource}`].map((name) => ({ $ref: `#/components/schemas/${name}` }));
      expect([schemaOf(creation, "201"), schemaOf(rotation, "200")]).toEqual([{ anyOf: refs }, { anyOf: refs }]);
      expect(schemas[`${resource}WithSecret`]?.properties[member]?.type).toBe("string");
      expect(schemas[`Replayed${resource}`]?.properties[member]?.type).toContain("null");
    }
  });

  it("lists all codes of field errors, and allows further codes", () => {
    const code = resolve(document, "#/components/schemas/Problem/properties/errors/items/properties/code") as JsonObject;
    expect([code["x-extensible-enum"], code.enum]).toEqual([fieldErrorCodes, undefined]);
    const own = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .flatMap((file) => [...readFileSync(join(root, "src", file), "utf8").matchAll(/(?:params: \{ code: |\bwrong\()"(\w+)"/g)])
      .map(([, each]) => each as string);
    expect(own.length).toBeGreaterThan(3);
    for (const each of own) expect(fieldErrorCodes).toContain(each);
    const zodCodes = [
      "invalid_type",
      "too_big",
      "too_small",
      "invalid_format",
      "not_multiple_of",
      "unrecognized_keys",
      "invalid_union",
      "invalid_key",
    ];
    for (const each of [...zodCodes, "invalid_element", "invalid_value", "custom"])
      expect(fieldErrorCodes).toContain(fieldCode({ code: each, message: "", path: [] } as never));
  });
});
