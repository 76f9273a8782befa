import ipaddr from "ipaddr.js";
import { expect, it, vi } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";

it("The Worker parses a key's list of a hundred addresses once per configuration of the key, not once per request", async () => {
  const tenant = await makeTenant();
  const allowedIps = Array.from({ length: 100 }, (_, index) => `203.0.${index}.0/24`);
  const { key, keyId } = await makeKey(tenant.accountId, { allowedIps });
  const getMe = () => call("GET", "/api/v1/me", { key, "CF-Connecting-IP": "203.0.99.7" });
  expect((await getMe()).status).toBe(200);
  const parse = vi.spyOn(ipaddr, "process");
  try {
    for (let n = 0; n < 5; n++) expect((await getMe()).status).toBe(200);
    // Each request parses only the client's IP address.
    expect(parse.mock.calls.length).toBeLessThanOrEqual(5);
    await call("PATCH", `/api/v1/keys/${keyId}`, { key: tenant.key, body: { allowed_ips: ["198.51.100.1"] } });
    expect((await getMe()).body.code).toBe("ip_not_allowed");
  } finally {
    parse.mockRestore();
  }
});
