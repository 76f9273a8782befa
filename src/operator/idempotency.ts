import { createMiddleware } from "hono/factory";
import { canonicalJsonOf } from "../api/canonical-json.ts";
import { idempotencyKeyIn } from "../api/idempotency.ts";
import { respondBytes } from "../api/respond.ts";
import { hashOf } from "../crypto/hash.ts";
import { connect } from "../db/client.ts";
import { urlOf } from "../http/request-url.ts";
import { release, reserve, storeReserved } from "../idempotency/reserve.ts";
import type { OperatorEnv } from "./context.ts";

/** Members that are shown once. A repeated request gets null in their place. */
const shownOnce = ["secret_key", "token", "setup_url"];

/** The operations that are repeated in their own way. */
const exempt = ["/operator/api/verify", "/operator/api/reports"];

/**
 * Makes a POST with an `Idempotency-Key` take effect once in 24 hours. A repeated request gets the response to the first one, without values that are shown only
 * once. The keys of different tokens are different.
 */
export const idempotentPosts = createMiddleware<OperatorEnv>(async function idempotentPosts(c, next) {
  const key = c.req.method === "POST" && !exempt.includes(c.req.path) ? idempotencyKeyIn(c) : null;
  if (key === null) return next();
  const db = connect(c.env.DB);
  const { pathname, search } = urlOf(c);
  const { bytes } = c.get("body");
  const request = {
    accountId: c.get("token").id ?? `operator ${c.get("operator")}`,
    operation: `POST ${pathname}`,
    key,
    fingerprint: hashOf(`${search}\n${canonicalJsonOf(bytes) ?? Buffer.from(bytes).toString("base64")}`),
  };
  const stored = await reserve(db, request, Date.now());
  if (stored) {
    const headers = { ...stored.headers, "Idempotent-Replayed": "true" };
    return respondBytes(c, new TextEncoder().encode(stored.body), headers, stored.status);
  }
  await next();
  const { status, headers } = c.res;
  if (status >= 300) return release(db, request);
  const text = await c.res.clone().text();
  const body = (text === "" ? "" : JSON.stringify(withoutSecrets(JSON.parse(text)))) as string;
  const kept = Object.fromEntries(
    ["Content-Type", "ETag", "Location"].flatMap((name) => (headers.has(name) ? [[name, headers.get(name) ?? ""]] : [])),
  );
  await storeReserved(db, request, { status, headers: kept, body });
});

const withoutSecrets = (body: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(body).map(([name, value]) => [name, shownOnce.includes(name) ? null : value]));
