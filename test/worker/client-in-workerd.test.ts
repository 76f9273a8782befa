import { exports } from "cloudflare:workers";
import { expect, it } from "vitest";
import { createClient, dataOf, ProblemError, pages } from "../../client/src/index.ts";
import { makeTenant } from "./client.ts";

it("The typed client works in workerd", async () => {
  const { key } = await makeTenant();
  const client = createClient({ baseUrl: "http://localhost", apiKey: key, fetch: (request) => exports.default.fetch(request) });
  for (const title of ["One", "Two", "Three"]) await client.POST("/api/v1/tasks", { body: { title } });
  const titles: string[] = [];
  for await (const { title } of pages(client, "/api/v1/tasks", { query: { limit: 2 } })) titles.push(title);
  expect(titles).toEqual(["Three", "Two", "One"]);
  const found: string[] = [];
  const query = { status: ["todo", "in_progress"] as ("todo" | "in_progress")[] };
  for await (const { status } of pages(client, "/api/v1/tasks", { query })) found.push(status);
  expect(found).toEqual(["todo", "todo", "todo"]);
  // @ts-expect-error The values are typed.
  await expect(client.GET("/api/v1/tasks", { params: { query: { status: ["later"] } } })).rejects.toThrow("invalid_parameter");
  const error = await dataOf(client.GET("/api/v1/tasks/{id}", { params: { path: { id: "tsk_1" } } })).catch((error: unknown) => error);
  expect(error instanceof ProblemError && error.code).toBe("not_found");
});
