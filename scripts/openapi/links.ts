import { type JsonObject, operationsIn } from "../../src/api/openapi/document.ts";

/**
 * For each POST operation that creates a resource, adds a link to the response. The link leads to the GET operation that reads the created
 * resource.
 */
export function addLinks(document: JsonObject): void {
  const all = operationsIn(document);
  for (const { method, path, operation } of all) {
    const made = operation.responses["201"] as JsonObject | undefined;
    const read = all.find((other) => other.method === "get" && other.path === `${path}/{id}`);
    if (method !== "post" || !made || !read) continue;
    made.links = {
      [read.operation.operationId]: {
        operationId: read.operation.operationId,
        parameters: { id: "$response.body#/id" },
        description: "The created resource.",
      },
    };
  }
}
