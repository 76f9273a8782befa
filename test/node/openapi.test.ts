import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { root } from "../../scripts/root.ts";
import { failures } from "../../src/errors.ts";
import { eventCatalogue } from "../../src/event-catalogue.ts";
import { isObject, type Json, type JsonObject, operationsIn, resolve } from "../../src/openapi-document.ts";

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

  it("has an example on every body, each of which its schema takes", () => {
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
