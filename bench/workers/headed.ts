import { Hono } from "hono";
import { anyOrigin } from "../../src/api/cross-origin.ts";

const body = JSON.stringify({
  type: "http://localhost/docs/errors/invalid_key",
  title: "API key invalid",
  status: 401,
  detail: "This is not a key of this service, or no longer its secret.",
  instance: "/",
  code: "invalid_key",
  request_id: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
});

const headers = new Headers({
  "Content-Type": "application/problem+json",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
  "Cache-Control": "no-store",
  "X-Request-Id": "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
  "WWW-Authenticate": 'Bearer realm="api", error="invalid_token"',
  ...anyOrigin,
});

/** The floor of any refusal: a router, and an answer with the headers and body of the contract, made beforehand. */
const app = new Hono();
app.get("/", () => new Response(body, { status: 401, headers }));

export default app;
