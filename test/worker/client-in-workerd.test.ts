import { exports } from "cloudflare:workers";
import { expect, it } from "vitest";
import { createClient, dataOf, ProblemError, pages, SecretLostError } from "../../client/src/index.ts";
import { makeTenant } from "./support/client.ts";

it("The typed client works in workerd", async () => {
  const { key } = await makeTenant();
  const userAgents = new Set<string | null>();
  let responsesToLose = 0;
  const send = async (request: Request) => {
    userAgents.add(request.headers.get("User-Agent"));
    const response = await exports.default.fetch(request);
    if (responsesToLose-- <= 0) return response;
    await response.arrayBuffer();
    throw new TypeError("Network connection lost.");
  };
  const client = createClient({ baseUrl: "http://localhost", apiKey: key, fetch: send });
  for (const title of ["One", "Two", "Three"]) await client.tasks.create({ title });
  const titles: string[] = [];
  for await (const { title } of client.tasks.list({ limit: 2 })) titles.push(title);
  for await (const { title } of pages(client, "/api/v1/tasks", { query: { limit: 2 } })) titles.push(title);
  expect(titles).toEqual(["Three", "Two", "One", "Three", "Two", "One"]);
  const statuses: string[] = [];
  const query = { status: ["todo", "in_progress"] as ("todo" | "in_progress")[] };
  for await (const { status } of pages(client, "/api/v1/tasks", { query })) statuses.push(status);
  expect(statuses).toEqual(["todo", "todo", "todo"]);
  // @ts-expect-error The values are typed.
  await expect(client.GET("/api/v1/tasks", { params: { query: { status: ["later"] } } })).rejects.toThrow("invalid_parameter");
  const error = await dataOf(client.GET("/api/v1/tasks/{id}", { params: { path: { id: "tsk_1" } } })).catch((error: unknown) => error);
  expect(error instanceof ProblemError && error.code).toBe("not_found");
  responsesToLose = 1;
  await expect(client.keys.create({ name: "Lost" })).rejects.toThrow(SecretLostError);
  expect([...userAgents]).toEqual([expect.stringMatching(/^developer-overview-client\/\S+ \(workerd\)$/)]);
});
