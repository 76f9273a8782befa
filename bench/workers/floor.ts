import { DurableObject } from "cloudflare:workers";
import { Hono } from "hono";
import { keyVerifier } from "../../src/credentials/signing-secrets.ts";
import { anyOrigin } from "../../src/http/cross-origin.ts";
import { apiSecurityHeaders } from "../../src/http/security-headers.ts";
import { newId } from "../../src/lib/ids.ts";
import { type Entry, notRecorded } from "../../src/log/entry.ts";
import { ActivityBuffer } from "../../src/log/isolate/buffer.ts";

/**
 * Does only the minimum work that the contract requires. The minimum is the work of the bare Worker, plus the steps that every design needs.
 * All values that can be computed in advance are constants.
 */
const app = new Hono<{ Bindings: Bindings }>();

type Bindings = Omit<Env, "KEY_GUARD"> & { KEY_GUARD: DurableObjectNamespace<KeyGuard> };

export class KeyGuard extends DurableObject {
  #used = 0;

  nothing(): null {
    return null;
  }

  /** Stores the log entries of a batch in one row. */
  log(entries: readonly Entry[]): void {
    this.ctx.storage.kv.put(crypto.randomUUID(), JSON.stringify(entries));
  }

  count(secretHash: string): string {
    return secretHash.length > 0 ? String(++this.#used) : "";
  }
}

/** Makes one call to a Durable Object. The Durable Object does no work. An exact limit is not possible without calls to a Durable Object. */
app.get("/exchange", async (c) => {
  await c.env.KEY_GUARD.getByName("one").nothing();
  return c.json({ ok: true });
});

const identify = (headers: Headers, env: Bindings) => keyVerifier(env).verify((headers.get("Authorization") ?? "").slice("Bearer ".length));

const headersOfAll = { ...apiSecurityHeaders, ...anyOrigin, "Cache-Control": "no-store" };
const buffer = new ActivityBuffer();
const limit = 1_000_000_000;
const ofAdmitted = new Headers({
  ...headersOfAll,
  "Content-Type": "application/json",
  "RateLimit-Policy": `"hour";q=${limit};w=3600`,
  "X-RateLimit-Limit": String(limit),
  "X-RateLimit-Reset": "1795312800",
});
const admitted = (used: string, remaining: number) =>
  `{"account":{"id":"acc_019a1b2c3d4e7f8091a2b3c4d5e6f708","name":"Bench"},"key":{"id":"key_0123456789abcdef","name":"Key 0","scopes":["users:read"],"expires_at":null},"rate_limit":{"limit":${limit},"used":${used},"remaining":${remaining},"resets_at":"2026-11-22T15:00:00.000Z"}}`;

/**
 * Serves an admitted request without any checks. The steps are: create the request id, hash the key, count the request in a Durable Object,
 * return the count, and store the log entry.
 */
app.get("/admitted", async (c) => {
  const startedAt = Date.now();
  const id = newId("req", startedAt);
  const { secretHash, keyId } = identify(c.req.raw.headers, c.env) ?? { secretHash: "", keyId: "" };
  const used = await c.env.KEY_GUARD.getByName(keyId).count(secretHash);
  buffer.add({
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
    secret: "current",
    ...notRecorded,
  });
  if (!buffer.isFlushing(startedAt)) {
    c.executionCtx.waitUntil(buffer.flush(async ({ entries }) => c.env.KEY_GUARD.getByName("log").log(entries)));
  }
  const remaining = limit - Number(used);
  ofAdmitted.set("X-Request-Id", id);
  ofAdmitted.set("RateLimit", `"hour";r=${remaining};t=1312`);
  ofAdmitted.set("X-RateLimit-Remaining", String(remaining));
  ofAdmitted.set("X-RateLimit-Used", used);
  return new Response(admitted(used, remaining), { headers: ofAdmitted });
});

const ofForged = new Headers({
  ...headersOfAll,
  "Content-Type": "application/problem+json",
  "WWW-Authenticate": 'Bearer realm="api", error="invalid_token"',
});
const forged = (id: string) =>
  `{"type":"http://127.0.0.1/docs/errors/invalid_key","title":"API key invalid","status":401,"detail":"This is not a key of this service, or no longer its secret.","instance":"/api/v1/me","code":"invalid_key","request_id":"${id}"}`;

/** Denies a request with a forged key. The steps are: verify the tag of the key, create the request id and build the response. */
function refuseForged(headers: Headers, env: Bindings): Response {
  const id = newId("req", Date.now());
  if (identify(headers, env) !== null) throw new Error("this key is not forged");
  ofForged.set("X-Request-Id", id);
  return new Response(forged(id), { status: 401, headers: ofForged });
}

export default {
  fetch: (request, env, ctx) => (request.url.endsWith("/forged") ? refuseForged(request.headers, env) : app.fetch(request, env, ctx)),
} satisfies ExportedHandler<Bindings>;
