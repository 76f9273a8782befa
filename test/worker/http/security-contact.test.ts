import { exports } from "cloudflare:workers";
import { expect, it } from "vitest";
import { origin } from "../support/client.ts";

it("The file security.txt contains the configured contact and an expiry in the future", async () => {
  const response = await exports.default.fetch(`${origin}/.well-known/security.txt`);
  const text = await response.text();
  expect([response.status, text]).toEqual([200, expect.stringMatching(/^Contact: mailto:security@acme\.dev$/m)]);
  expect(Date.parse(/^Expires: (.+)$/m.exec(text)?.[1] ?? "")).toBeGreaterThan(Date.now());
  expect(text).toContain(`Canonical: https://overview.acme.dev/.well-known/security.txt`);
});
