import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { createApp } from "../../../src/app.ts";

it("An isolate reads the asset of the OpenAPI document once for each origin", async () => {
  const ASSETS = { fetch: vi.fn(() => env.ASSETS.fetch("http://localhost/api/v1/openapi.json")) } as unknown as Fetcher;
  const app = createApp({ isLocal: true });
  const etags = new Set<string | null>();
  for (let n = 0; n < 3; n++) {
    const request = new Request("http://once.localhost/api/v1/openapi.json");
    const bindings = { ...env, PUBLIC_ORIGIN: "https://once.acme.dev", ASSETS } as unknown as Env;
    const response = await app.fetch(request, bindings, createExecutionContext());
    expect((await response.json<{ servers: { url: string }[] }>()).servers[0]?.url).toBe("https://once.acme.dev");
    etags.add(response.headers.get("ETag"));
  }
  expect([etags.size, vi.mocked(ASSETS.fetch).mock.calls.length]).toEqual([1, 1]);
});
