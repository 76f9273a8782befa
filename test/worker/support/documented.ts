import { type Schema, Validator } from "@cfworker/json-schema";
import { expect } from "vitest";
import { closedDocument } from "../../../scripts/openapi/document.ts";
import { routers } from "../../../src/resources/routers.ts";
import type { Answer } from "./client.ts";

// The operations of an OpenAPI document. The published document allows unknown properties and codes, because a later release may add new
// ones. Tests check responses against the closed form of the document, which rejects unknown properties and codes.

interface Document {
  paths: Record<string, Record<string, unknown>>;
  components: { schemas: Record<string, unknown>; headers: Record<string, unknown> };
}

export interface Operation {
  operationId: string;
  /** The units that a request costs, if not one. */
  "x-cost"?: number;
  security: Record<string, string[]>[];
  requestBody?: { content: Record<string, { schema: Schema } | undefined> };
  responses: Record<string, { headers?: Record<string, unknown>; content?: Record<string, { schema: Schema; examples?: object }> }>;
}

export type DocumentedOperation = Operation & { method: string; path: string };

/** The headers that any response may have. The guide documents these headers, and the operations do not. */
const commonHeaders =
  /^(content-type|content-length|cache-control|content-security-policy|x-content-type-options|strict-transport-security|access-control-.*)$/;

/** The operations of a document in its closed form, and the checks of responses against it. */
export function documentedIn(closed: object) {
  const document = closed as Document;
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(
      ([method, operation]): DocumentedOperation => ({ method: method.toUpperCase(), path, ...(operation as unknown as Operation) }),
    ),
  );
  const validators = new Map<Schema, Validator>();
  const validatorOf = (schema: Schema): Validator => {
    const validator = validators.get(schema) ?? new Validator({ ...schema, components: document.components } as Schema, "2020-12", false);
    validators.set(schema, validator);
    return validator;
  };
  const pathPatterns = operations.map((operation) => ({
    operation,
    pattern: new RegExp(`^${operation.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`),
  }));

  /** Fails unless the operation documents the status, the headers, the media type, the body and the error code of a response. */
  function expectDocumented({ operationId, responses }: DocumentedOperation, { status, headers, text, body }: Answer): void {
    const documented = responses[String(status)];
    expect(documented, `${operationId} responds with the status ${status}, which it does not document`).toBeDefined();
    const documentedHeaders = Object.keys(documented?.headers ?? {}).map((name) => name.toLowerCase());
    const undocumented = [...headers.keys()].filter((name) => !commonHeaders.test(name) && !documentedHeaders.includes(name));
    expect(undocumented, `${operationId} responds with ${status} and headers that it does not document`).toEqual([]);
    const mediaType = headers.get("Content-Type")?.split(";")[0] ?? "";
    const content = documented?.content?.[mediaType];
    if (text === "" && mediaType === "") {
      expect(documented?.content).toBeUndefined();
      return;
    }
    expect(content?.schema, `${operationId} responds with ${status} as ${mediaType}, which it does not document`).toBeDefined();
    const { valid, errors } = validatorOf(content?.schema as Schema).validate(parsedAs(mediaType, text, body));
    expect(valid, JSON.stringify(errors)).toBe(true);
    // For an error status, the names of the examples are the error codes that the operation documents.
    if (status >= 400) expect(Object.keys(content?.examples ?? {})).toContain(body.code);
  }

  /** Fails if a request calls an operation of the document and gets an undocumented response. Ignores requests that call no such operation. */
  function checkResponse(method: string, path: string, response: Answer): void {
    const [pathname = ""] = path.split("?");
    const candidates = operations.some((operation) => operation.path === pathname)
      ? pathPatterns.filter(({ operation }) => operation.path === pathname)
      : pathPatterns.filter(({ pattern }) => pattern.test(pathname));
    const found = candidates.find(({ operation }) => operation.method === method);
    if (found) expectDocumented(found.operation, response);
  }

  return { document, operations, expectDocumented, checkResponse };
}

const parsedAs = (mediaType: string, text: string, body: unknown): unknown =>
  mediaType.endsWith("json") && !mediaType.endsWith("ndjson") ? body : text;

export const { document, operations, expectDocumented, checkResponse } = documentedIn(closedDocument(routers));
