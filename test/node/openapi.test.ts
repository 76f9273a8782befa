import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { root } from "../../scripts/root.ts";
import { failures, fieldErrorCodes } from "../../src/errors/failure.ts";
import { eventCatalogue } from "../../src/events/catalogue.ts";
import { fieldCode } from "../../src/inputs/field-code.ts";
import { isObject, type Json, type JsonObject, operationsIn, pascalCase, resolve } from "../../src/openapi/document.ts";

// The published document: good enough to make a reference and a client from.

const document = JSON.parse(readFileSync(join(root, "public/api/v1/openapi.json"), "utf8")) as JsonObject;
const components = document.components as Record<string, JsonObject>;
const operations = operationsIn(document);
const resolved = (part: Json | undefined): JsonObject =>
  isObject(part) && typeof part.$ref === "string" ? (resolve(document, part.$ref) as JsonObject) : (part as JsonObject);

/** Every place of the document that has a schema and examples of it. */
function* examples(): Generator<{ at: string; schema: JsonObject; example: Json }> {
  const ofContent = function* (at: string, content: Json | undefined) {
    if (!isObject(content)) return;
    for (const media of Object.values(content) as JsonObject[]) {
      const given = isObject(media.examples) ? Object.values(media.examples).map((each) => (each as JsonObject).value as Json) : [];
      const all = media.example === undefined ? given : [media.example, ...given];
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

describe("The document", () => {
  it("is the same as YAML", () => {
    expect(parse(readFileSync(join(root, "public/api/v1/openapi.yaml"), "utf8"))).toEqual(document);
  });

  it("describes every operation, parameter, member and value", () => {
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

  it("has an example on every body, and the schema of the body takes it", () => {
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
    ajv.addSchema({ $id: "document", ...document });
    const wrong: string[] = [];
    for (const { at, schema, example } of examples()) {
      const validate = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')));
      if (!validate(example)) wrong.push(`${at}: ${ajv.errorsText(validate.errors)}`);
    }
    expect(wrong).toEqual([]);
  });

  it("names every code that there is, and of each operation only those that it may answer", () => {
    const named = new Set(
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
    // What no operation answers: a path that is not there, under a method that it does not take.
    expect(Object.keys(failures).filter((code) => !named.has(code))).toEqual(["method_not_allowed"]);
  });

  it("has the request of every type of event, and leads from what is made to its reading", () => {
    expect(Object.keys(document.webhooks as object)).toEqual(eventCatalogue.types);
    const linked = operations.filter(({ operation }) => (operation.responses["201"] as JsonObject | undefined)?.links);
    expect(linked.map(({ operation }) => operation.operationId)).toEqual(["createUser", "createTask", "createKey", "createWebhook"]);
  });
});

/** What an operation responds with under a status, by media type. */
function contentOf(operationId: string, status: string): Record<string, JsonObject> {
  const found = operations.find(({ operation }) => operation.operationId === operationId);
  return (found?.operation.responses[status] as JsonObject | undefined)?.content as Record<string, JsonObject>;
}

/** Every place of the document that is an object, with its path. */
function* places(node: Json | undefined, at = "#"): Generator<{ at: string; place: JsonObject }> {
  if (typeof node !== "object" || node === null) return;
  if (isObject(node)) yield { at, place: node };
  for (const [name, child] of Object.entries(node)) yield* places(child as Json, `${at}/${name}`);
}

describe("For those who generate code from it, the document", () => {
  it("compiles in a strict validator that knows the usual formats", () => {
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

  it("has either one example or several in a place", () => {
    const both = [...places(document)].filter(({ place }) => place.example !== undefined && Array.isArray(place.examples));
    expect(both.map(({ at }) => at)).toEqual([]);
  });

  it("names what operations share by what it is, and not by a number", () => {
    for (const kind of ["parameters", "responses", "schemas"])
      expect(Object.keys(components[kind] as object).filter((name) => /\d$/.test(name))).toEqual([]);
    expect(Object.keys(components.parameters as object)).toEqual(
      expect.arrayContaining(["idOfTask", "idOfKey", "keyId", "IdempotencyKey"]),
    );
  });

  it("gives no two things one name, where a generator names an enum by its schema and member", () => {
    const schemas = components.schemas as Record<string, { properties?: Record<string, JsonObject> }>;
    const names = Object.entries(schemas).flatMap(([name, { properties = {} }]) => [
      name,
      ...Object.keys(properties)
        .filter((member) => properties[member]?.enum !== undefined || properties[member]?.const !== undefined)
        .map((member) => `${name}${pascalCase(member)}`),
    ]);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("says in each operation which scope it requires", () => {
    for (const { operation } of operations) {
      const [requirement] = operation.security as Record<string, string[]>[];
      const [scope] = Object.values(requirement ?? {})[0] ?? [];
      const said = requirement ? (scope === undefined ? "Requires a key with any scopes." : `scope \`${scope}\`.`) : "Requires no key.";
      expect(operation.description).toContain(said);
    }
  });

  it("has a shape for each type of event, as webhooks receive it and as it is read, and one that stands for all", () => {
    const schemas = components.schemas as Record<string, JsonObject>;
    const refOf = (name: string) => `#/components/schemas/${name}`;
    const nameOf = (type: string) => `${type.replaceAll(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase())}Event`;
    for (const [shape, named] of [
      ["WebhookEvent", nameOf],
      ["Event", (type: string) => `Stored${nameOf(type)}`],
    ] as const) {
      const refs = eventCatalogue.types.map((type) => [type, refOf(named(type))]);
      expect(schemas[shape]?.discriminator).toEqual({ propertyName: "type", mapping: Object.fromEntries(refs) });
      expect(schemas[shape]?.oneOf).toEqual(refs.map(([, $ref]) => ({ $ref })));
      for (const { type, schema } of eventCatalogue.kinds) {
        const { properties, required } = schemas[named(type)] as { properties: Record<string, JsonObject>; required: string[] };
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

  it("shows a secret that is null in a replay alone", () => {
    const schemas = components.schemas as Record<string, { properties: Record<string, JsonObject> }>;
    const shownBy = (id: string, status: string) => contentOf(id, status)["application/json"]?.schema;
    for (const [shape, member, made, rotated] of [
      ["Key", "secret_key", "createKey", "rotateKey"],
      ["Webhook", "secret", "createWebhook", "rotateWebhookSecret"],
    ] as const) {
      const refs = [`${shape}WithSecret`, `Replayed${shape}`].map((name) => ({ $ref: `#/components/schemas/${name}` }));
      expect([shownBy(made, "201"), shownBy(rotated, "200")]).toEqual([{ anyOf: refs }, { anyOf: refs }]);
      expect(schemas[`${shape}WithSecret`]?.properties[member]?.type).toBe("string");
      expect(schemas[`Replayed${shape}`]?.properties[member]?.type).toContain("null");
    }
  });

  it("lists the codes of field errors, those of the validators' own among them, and leaves room for others", () => {
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

  it("is of one shape in both syntaxes, on a server without a path", () => {
    for (const id of ["getOpenApi", "getOpenApiYaml"]) {
      const [media] = Object.values(contentOf(id, "200"));
      expect(media?.schema).toEqual({ $ref: "#/components/schemas/OpenApiDocument" });
    }
    expect((document.servers as JsonObject[]).map(({ url }) => url)).toEqual(["http://localhost:8787"]);
  });
});
