import { DurableObject } from "cloudflare:workers";
import { Hono } from "hono";
import { Gatherer } from "../../src/activity/gatherer.ts";
import { storeEntries } from "../../src/activity/store-entries.ts";
import { signingSecrets } from "../../src/api/admit.ts";
import { anyOrigin } from "../../src/api/cross-origin.ts";
import { connect } from "../../src/db/client.ts";
import { newId } from "../../src/ids.ts";
import { KeyMemory } from "../../src/keys/key-memory.ts";

/** The floors of what the contract asks for: bare, and beside it only what no design can leave out. Whatever can be made beforehand is. */
const app = new Hono<{ Bindings: Env }>();

export class KeyGuard extends DurableObject {
  admit(): null {
    return null;
  }
}

/** One empty call of an object, for a limit that is exact; nothing at all behind it. */
app.get("/exchange", async (c) => {
  await c.env.KEY_GUARD.getByName("one").admit("");
  return c.json({ ok: true });
});

const always = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
  "Cache-Control": "no-store",
  ...anyOrigin,
};

const gatherer = new Gatherer();
const ofAdmitted = new Headers({
  ...always,
  "Content-Type": "application/json",
  "RateLimit-Policy": '"hour";q=5000;w=3600',
  RateLimit: '"hour";r=1650;t=1312',
  "X-RateLimit-Limit": "5000",
  "X-RateLimit-Remaining": "1650",
  "X-RateLimit-Used": "3350",
  "X-RateLimit-Reset": "1795312800",
});
const admitted = JSON.stringify({
  account: { id: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708", name: "Bench" },
  key: {
    id: "key_0123456789abcdef",
    name: "Key 0",
    scopes: ["users:read", "tasks:read", "tasks:write", "analytics:read"],
    expires_at: null,
  },
  rate_limit: { limit: 5000, used: 3350, remaining: 1650, resets_at: "2026-11-22T15:00:00.000Z" },
});

/** An admitted request: its id, the empty call, its answer and its row in the log. No key is read, nothing is checked or counted. */
app.get("/admitted", async (c) => {
  const startedAt = Date.now();
  const id = newId("req", startedAt);
  await c.env.KEY_GUARD.getByName("one").admit("");
  gatherer.add(
    {
      accountId: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708",
      id,
      keyId: "key_0123456789abcdef",
      method: "GET",
      path: "/api/v1/me",
      route: "/api/v1/me",
      status: 200,
      durationMs: 1,
      ip: "198.51.100.7",
      country: null,
      userAgent: null,
      errorCode: null,
      admitted: true,
      counted: true,
      count: 1,
    },
    startedAt,
  );
  if (!gatherer.isTaken(startedAt)) {
    const handToGuard = async () => {};
    c.executionCtx.waitUntil(gatherer.gather((entries) => storeEntries({ db: connect(c.env.DB), handToGuard }, entries)));
  }
  ofAdmitted.set("X-Request-Id", id);
  return new Response(admitted, { headers: ofAdmitted });
});

let memory: KeyMemory | undefined;
const ofForged = new Headers({
  ...always,
  "Content-Type": "application/problem+json",
  "WWW-Authenticate": 'Bearer realm="api", error="invalid_token"',
});
const forged = (id: string) =>
  `{"type":"http://127.0.0.1/docs/errors/invalid_key","title":"API key invalid","status":401,"detail":"This is not a key of this service, or no longer its secret.","instance":"/api/v1/me","code":"invalid_key","request_id":"${id}"}`;

/** A forged key: its hash, looked up among those seen, the id of the request and the refusal. */
app.get("/forged", (c) => {
  const id = newId("req", Date.now());
  memory ??= new KeyMemory(signingSecrets(c.env));
  const { keyId } = memory.read((c.req.header("authorization") ?? "").slice("Bearer ".length));
  if (keyId !== null) throw new Error("this key is not forged");
  ofForged.set("X-Request-Id", id);
  return new Response(forged(id), { status: 401, headers: ofForged });
});

export default app;
