import { expect, it } from "vitest";
import { call, makeTenant } from "./client.ts";

it("answers", async () => {
  const { key } = await makeTenant();
  expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
  expect((await call("POST", "/api/v1/tasks", { key, body: { title: "x" } })).status).toBe(201);
});
