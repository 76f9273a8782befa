import { type Schema, Validator } from "@cfworker/json-schema";
import { expect } from "vitest";
import { parse } from "yaml";
import { closedDocument } from "../../../scripts/openapi/document.ts";
import { routers } from "../../../src/surfaces/mounts.ts";
import type { Answer } from "./client.ts";

// The operations of the OpenAPI document. What clients see of it is open for members and codes to come; here, answers
// are held to the closed form.

export const document = closedDocument(routers) as unknown as {
  paths: Record<string, Record<string, unknown>>;
  components: { schemas: Record<string, unknown>; headers: Record<string, unknown> };
};

export interface Operation {
  operationId: string;
  security: Record<string, string[]>[];
  requestBody?: { content: Record<string, { schema: Schema } | undefined> };
  responses: Record<string, { headers?: Record<string, unknown>; content?: Record<string, { schema: Schema; examples?: object }> }>;
}

export const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, ...(operation as unknown as Operation) })),
);

export type Walked = (typeof operations)[number];

/** The headers of every response. The guide describes them, not each operation. */
const ofAll =
  /^(content-type|content-length|cache-control|content-security-policy|x-content-type-options|strict-transport-security|access-control-.*)$/;

const validators = new Map<Schema, Validator>();

function validatorOf(schema: Schema): Validator {
  const validator = validators.get(schema) ?? new Validator({ ...schema, components: document.components } as Schema, "2020-12", false);
  validators.set(schema, validator);
  return validator;
}

const forms = operations.map((operation) => ({ operation, form: new RegExp(`^${operation.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`) }));

/** Holds an answer to the document, where it is one of an operation. */
export function checkAnswer(method: string, path: string, answer: Answer): void {
  const [pathname = ""] = path.split("?");
  const ofPath = operations.some((operation) => operation.path === pathname)
    ? forms.filter(({ operation }) => operation.path === pathname)
    : forms.filter(({ form }) => form.test(pathname));
  const found = ofPath.find(({ operation }) => operation.method === method);
  if (found) expectDocumented(found.operation, answer);
}

export function expectDocumented(operation: Walked, answer: Answer): void {
  const response = operation.responses[String(answer.status)];
  expect(response, `${operation.operationId} answers ${answer.status}, which it does not document`).toBeDefined();
  const documented = Object.keys(response?.headers ?? {}).map((name) => name.toLowerCase());
  const undocumented = [...answer.headers.keys()].filter((name) => !ofAll.test(name) && !documented.includes(name));
  expect(undocumented, `${operation.operationId} answers ${answer.status} with headers that it does not document`).toEqual([]);
  const mediaType = answer.headers.get("Content-Type")?.split(";")[0] ?? "";
  const schema = response?.content?.[mediaType]?.schema;
  if (answer.text === "") {
    expect(response?.content).toBeUndefined();
    return;
  }
  expect(schema, `${operation.operationId} answers ${answer.status} as ${mediaType}, which it does not document`).toBeDefined();
  const { valid, errors } = validatorOf(schema as Schema).validate(mediaType.endsWith("json") ? answer.body : parse(answer.text));
  expect(valid, JSON.stringify(errors)).toBe(true);
  // Only the codes that may occur there are documented.
  if (answer.status >= 400) expect(Object.keys(response?.content?.[mediaType]?.examples ?? {})).toContain(answer.body.code);
}
