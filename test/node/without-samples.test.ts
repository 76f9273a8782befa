/** @module-tag process */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type JsonObject, operationsIn } from "../../src/api/openapi/document.ts";
import type { BuiltLibrary } from "../../src/docs/library.ts";
import { type RunningWorker, startWorker } from "./worker.ts";

// A Worker without the sample resources: for a team that only verifies requests of its own API.

/** The paths, scopes, event types and ids of the sample resources. */
const ofSamples =
  /\/api\/v1\/(?:users|tasks|analytics)\b|\b(?:users|tasks|analytics):(?:read|write)\b|\b(?:user|task)\.[a-z]+\b|\b(?:usr|tsk)_/;

let worker: RunningWorker;

beforeAll(async () => {
  worker = await startWorker({ files: { "overview.toml": "[api]\nsample_resources = false\n" } });
});
afterAll(() => worker?.stop());

const get = (path: string, headers: Record<string, string> = {}) => fetch(`http://localhost:${worker.port}${path}`, { headers });
const textOf = async (path: string) => {
  // Only a browser on this machine can open the pages of the overview.
  const response = await get(path, { "Sec-Fetch-Site": "none" });
  expect([path, response.status]).toEqual([path, 200]);
  return response.text();
};

describe("Without the sample resources", () => {
  it("their paths are unknown, and all others are as before", async () => {
    const withKey = { Authorization: `Bearer ${worker.key}` };
    for (const path of ["/api/v1/users", "/api/v1/tasks", "/api/v1/tasks/tsk_none", "/api/v1/analytics"]) {
      expect([path, (await get(path, withKey)).status]).toEqual([path, 404]);
      expect([path, (await get(path)).status]).toEqual([path, 401]);
    }
    for (const path of ["/api/v1/me", "/api/v1/keys", "/api/v1/usage"])
      expect([path, (await get(path, withKey)).status]).toEqual([path, 200]);
  });

  it("no key can get their scopes, and a new key has none of them", async () => {
    expect(await worker.api("POST", "/keys", { name: "Sample", scopes: ["users:read"] })).toMatchObject({
      code: "invalid_body",
      errors: [{ pointer: "/scopes/0" }],
    });
    expect((await worker.api("POST", "/keys", { name: "Default" })).scopes).toEqual([]);
    expect(await textOf("/keys/new")).not.toMatch(/(?:users|tasks|analytics):(?:read|write)/);
  });

  it("a key keeps its older scopes of them, even if a client sends them back", async () => {
    const { key } = await worker.api("GET", "/me");
    expect(key.scopes).toContain("users:read");
    const change = (scopes: string[]) => worker.api("PATCH", `/keys/${key.id}`, { scopes });
    expect((await change(key.scopes)).scopes).toEqual(key.scopes);
    const narrower = key.scopes.filter((scope: string) => scope !== "users:read");
    expect((await change(narrower)).scopes).toEqual(narrower);
    expect(await change(key.scopes)).toMatchObject({ code: "invalid_body", errors: [{ pointer: "/scopes" }] });
  });

  it("there are no events about them", async () => {
    const { data } = await worker.api("GET", "/event-types");
    expect(data.filter(({ type }: { type: string }) => ofSamples.test(type))).toEqual([]);
    expect(await textOf("/webhooks/new")).not.toMatch(ofSamples);
  });

  it("the OpenAPI documents leave them out", async () => {
    const text = await textOf("/api/v1/openapi.json");
    expect(text).not.toMatch(ofSamples);
    const document = JSON.parse(text) as JsonObject;
    expect(operationsIn(document).length).toBeGreaterThan(30);
    expect((document.tags as { name: string }[]).map(({ name }) => name)).not.toContain("Users");
    expect(await textOf("/api/v1/openapi.yaml")).not.toMatch(ofSamples);
  });

  it("the documentation leaves them out, and has no link to a missing page", async () => {
    for (const path of ["/docs/api/listUsers", "/docs/events/task.created", "/docs/schemas/Task", "/docs/guides/quick-start"])
      expect([path, (await get(path)).status]).toEqual([path, 404]);
    expect(await textOf("/docs")).not.toContain("listUsers");
    expect(await textOf("/llms.txt")).not.toMatch(ofSamples);
    const { pages } = JSON.parse(readFileSync(join(worker.folder, "src/docs/built-without-samples.txt"), "utf8")) as BuiltLibrary;
    const paths = new Set(pages.map(({ path }) => path));
    for (const { path, markdown } of pages) {
      // The changelog says what earlier versions had.
      if (path !== "/docs/guides/changelog") expect([path, ofSamples.exec(markdown)?.[0]]).toEqual([path, undefined]);
      const missing = [...markdown.matchAll(/\]\((\/docs\/[^)#]+)/g)]
        .map(([, target = ""]) => target)
        .filter((target) => !paths.has(target));
      expect([path, missing]).toEqual([path, []]);
    }
  });
});
