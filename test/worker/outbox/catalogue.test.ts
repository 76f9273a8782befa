import { Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import { call, makeTenant } from "../support/client.ts";

describe("The catalogue of event types", () => {
  it("has every type with a schema that matches its example and real events", async () => {
    const { key } = await makeTenant();
    const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "Real" } });
    await call("PATCH", `/api/v1/tasks/${task.id}`, { key, body: { title: "Changed", status: "done" } });
    const { data } = (await call("GET", "/api/v1/event-types", { key })).body;
    expect(data.length).toBeGreaterThan(9);
    for (const { schema, example } of data) expect(new Validator(schema, "2020-12", false).validate(example).errors).toEqual([]);
    for (const event of (await call("GET", "/api/v1/events", { key })).body.data) {
      const { schema } = data.find(({ type }: { type: string }) => type === event.type);
      const body = { type: event.type, timestamp: event.created_at, data: event.data, ...(event.previous && { previous: event.previous }) };
      expect(new Validator(schema, "2020-12", false).validate(body).errors).toEqual([]);
    }
  });
});
