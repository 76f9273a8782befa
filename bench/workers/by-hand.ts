import type { z } from "@hono/zod-openapi";
import { Gatherer } from "../../src/activity/gatherer.ts";
import { storeEntries } from "../../src/activity/store-entries.ts";
import { signingSecrets } from "../../src/api/admit.ts";
import { anyOrigin } from "../../src/api/cross-origin.ts";
import type { Problem } from "../../src/api/problem.ts";
import { fixedRateLimitHeaders, rateLimitHeadersNow } from "../../src/api/rate-limit-headers.ts";
import { connect } from "../../src/db/client.ts";
import { newId } from "../../src/ids.ts";
import { askAdmission } from "../../src/keys/guards.ts";
import { KeyMemory } from "../../src/keys/key-memory.ts";

export { KeyGuard } from "../../src/keys/key-guard.ts";

const gatherer = new Gatherer();
let memory: KeyMemory | undefined;
let fixed: Headers | undefined;

/**
 * What `GET /api/v1/me` costs without router, schemas and checks: the product's own key, guard, headers and log, and nothing
 * around them. It knows one operation and one refusal, that of a forged key. What the product could win at most by a thinner API layer.
 */
export default {
  async fetch(request, env, ctx) {
    const startedAt = Date.now();
    const id = newId("req", startedAt);
    memory ??= new KeyMemory(signingSecrets(env));
    const { keyId, secretHash } = memory.read((request.headers.get("authorization") ?? "").slice("Bearer ".length));
    if (keyId === null) return forged(request, id);
    const ip = request.headers.get("cf-connecting-ip") ?? "";
    const admission = await askAdmission(env.KEY_GUARD, keyId, { secretHash, ip, scope: null, counted: true });
    if (admission === null || admission.refusal !== null) return new Response(null, { status: 401 });
    const { key, rateLimit } = admission;
    fixed ??= new Headers([
      ...Object.entries({ ...always, ...anyOrigin, "Content-Type": "application/json" }),
      ...fixedRateLimitHeaders(rateLimit),
    ]);
    const response = new Response(JSON.stringify({ key, rateLimit }), { headers: fixed });
    response.headers.set("X-Request-Id", id);
    for (const [name, value] of rateLimitHeadersNow(rateLimit, startedAt)) response.headers.set(name, value);
    const now = Date.now();
    gatherer.add(
      {
        accountId: key.accountId,
        id,
        keyId,
        method: request.method,
        path: "/api/v1/me",
        route: "/api/v1/me",
        status: 200,
        durationMs: now - startedAt,
        ip,
        country: null,
        userAgent: request.headers.get("user-agent"),
        errorCode: null,
        admitted: true,
        counted: true,
        count: 1,
      },
      now,
    );
    if (!gatherer.isTaken(now)) {
      const handToGuard = async () => {};
      ctx.waitUntil(gatherer.gather((entries) => storeEntries({ db: connect(env.DB), handToGuard }, entries)));
    }
    return response;
  },
} satisfies ExportedHandler<Env>;

function forged({ url }: Request, id: string): Response {
  const { origin, pathname } = new URL(url);
  const body: z.infer<typeof Problem> = {
    type: `${origin}/docs/errors/invalid_key`,
    title: "API key invalid",
    status: 401,
    detail: "This is not a key of this service, or no longer its secret.",
    instance: pathname,
    code: "invalid_key",
    request_id: id,
  };
  const response = new Response(JSON.stringify(body), { status: 401, headers: ofForged });
  response.headers.set("X-Request-Id", id);
  return response;
}

const always = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
  "Cache-Control": "no-store",
};

const ofForged = new Headers({
  ...always,
  ...anyOrigin,
  "Content-Type": "application/problem+json",
  "WWW-Authenticate": 'Bearer realm="api", error="invalid_token"',
});
