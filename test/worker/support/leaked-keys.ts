import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { createApp } from "../../../src/app.ts";
import { origin } from "./client.ts";

const app = createApp({ isLocal: true });

/**
 * Reports a secret key as leaked, and waits until the Worker has handled the report. The Worker responds before it handles a report. `bindings`
 * replaces some bindings of the Worker.
 */
export async function reportLeakedKey(key: string, bindings: Partial<Env> = {}): Promise<void> {
  const ctx = createExecutionContext();
  const request = new Request(`${origin}/api/v1/keys/revoke-leaked`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ key }),
  });
  const response = await app.fetch(request, { ...env, ...bindings }, ctx);
  expect([response.status, await response.text()]).toEqual([202, ""]);
  await waitOnExecutionContext(ctx);
}
