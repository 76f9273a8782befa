import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { createApp } from "../../../src/app.ts";
import { makeTenant, origin } from "../support/client.ts";

const app = createApp({ isLocal: true });

async function statusOf(path: string, key: string | null, setting: string): Promise<number> {
  const request = new Request(origin + path, { headers: key === null ? {} : { Authorization: `Bearer ${key}` } });
  const ctx = createExecutionContext();
  const { status } = await app.fetch(request, { ...env, SAMPLE_RESOURCES: setting as "on" }, ctx);
  await waitOnExecutionContext(ctx);
  return status;
}

it("The sample resources do not exist if they are switched off, and everything else does", async () => {
  const { key } = await makeTenant();
  for (const path of ["/api/v1/users", "/api/v1/tasks", "/api/v1/tasks/tsk_none", "/api/v1/analytics"]) {
    expect([path, await statusOf(path, key, "off")]).toEqual([path, 404]);
    expect([path, await statusOf(path, null, "off")]).toEqual([path, 401]);
  }
  expect(await statusOf("/api/v1/users", key, "on")).toBe(200);
  for (const path of ["/api/v1/me", "/api/v1/keys", "/api/v1/usage"]) expect([path, await statusOf(path, key, "off")]).toEqual([path, 200]);
});
