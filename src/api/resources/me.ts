import { createRoute, z } from "@hono/zod-openapi";
import { iso, isoOrNull } from "../../clock.ts";
import { recognizedKey } from "../../http/context.ts";
import { remainingOf } from "../../http/rate-limit-headers.ts";
import { percent } from "../../percent.ts";
import type { ApiContext } from "../context.ts";
import { respondJson } from "../respond.ts";
import { notCounted, requireScope } from "../route-parts/access.ts";
import { json, problems } from "../route-parts/responses.ts";
import { time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const count = z.int().min(0);

const Me = z
  .strictObject({
    account: z.strictObject({ id: z.string(), name: z.string() }),
    key: z.strictObject({ id: z.string(), name: z.string(), scopes: z.array(z.string()), expires_at: time.nullable() }),
    rate_limit: z.strictObject({ limit: count, used: count, remaining: count, resets_at: time }),
  })
  .openapi("Me");

const RateLimits = z
  .strictObject({
    policies: z.array(
      z.strictObject({
        name: z.literal("hour"),
        limit: count,
        used: count,
        remaining: count,
        percent: z.number().min(0).max(100),
        resets_at: time,
      }),
    ),
  })
  .openapi("RateLimits");

export const me = createRouter();

const read = createRoute({
  method: "get",
  path: "/me",
  operationId: "getMe",
  summary: "Get the account and key of this request",
  tags: ["Key in use"],
  ...requireScope(null),
  responses: { 200: json(Me, "The account, the key and its limit."), ...problems(400) },
});

me.openapi(read, (c) => {
  const { keyId, key, limit, used, remaining, resetsAt } = inUse(c);
  return respondJson(
    {
      account: { id: key.accountId, name: key.accountName },
      key: { id: keyId, name: key.name, scopes: key.scopes, expires_at: isoOrNull(key.expiresAt) },
      rate_limit: { limit, used, remaining, resets_at: iso(resetsAt) },
    },
    200,
  );
});

const readRateLimit = createRoute({
  method: "get",
  path: "/rate-limit",
  operationId: "getRateLimit",
  summary: "Get the limit of this key",
  description: "Not counted, and answered even when the limit is reached.",
  tags: ["Key in use"],
  ...requireScope(null),
  ...notCounted,
  responses: { 200: json(RateLimits, "What is used of each limit."), ...problems(400) },
});

me.openapi(readRateLimit, (c) => {
  const { limit, used, remaining, resetsAt } = inUse(c);
  return respondJson(
    { policies: [{ name: "hour" as const, limit, used, remaining, percent: percent(used, limit), resets_at: iso(resetsAt) }] },
    200,
  );
});

function inUse(c: ApiContext) {
  const { keyId, admission } = recognizedKey(c);
  return { keyId, key: admission.key, ...admission.rateLimit, remaining: remainingOf(admission.rateLimit) };
}
