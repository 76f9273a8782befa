import { Hono } from "hono";

/** A minimal Worker: a router with handlers that always return the same response. This Worker shows the upper bound of the platform. */
const app = new Hono();
app.get("/", (c) => c.json({ ok: true }));

/** Reads a JSON body and returns one of the size of a verification. Nothing is validated, decided or counted. */
app.post("/verify", async (c) => {
  const { key, path } = await c.req.json<{ key: string; path: string }>();
  return c.json({
    allowed: true,
    status: 200,
    code: null,
    degraded: false,
    request_id: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
    receipt: null,
    account: { id: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708", external_id: null, name: path, metadata: {} },
    key: { id: key.slice(0, 20), external_id: null, name: "Bench", scopes: ["users:read"], metadata: {}, expires_at: null },
    rate_limits: [{ name: "hour", limit: 1_000_000_000, used: 1, remaining: 999_999_999, resets_at: "2026-01-31T10:00:00.000Z" }],
    headers: {
      "RateLimit-Policy": '"hour";q=1000000000;w=3600',
      RateLimit: '"hour";r=999999999;t=1312',
      "X-RateLimit-Limit": "1000000000",
      "X-RateLimit-Remaining": "999999999",
      "X-RateLimit-Used": "1",
      "X-RateLimit-Reset": "1769853600",
    },
    problem: null,
  });
});

export default app;
