import { createRoute, z } from "@hono/zod-openapi";
import { iso, isoOrNull } from "../clock.ts";
import { percent } from "../percent.ts";
import { type ApiContext, actorOf, callOf } from "./context.ts";
import { keyWith, notCounted } from "./operation.ts";
import { remainingOf } from "./rate-limit-headers.ts";
import { resource } from "./resource.ts";
import { json, problems } from "./responses.ts";
import { time } from "./schemas.ts";
import { sendJson } from "./send.ts";

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

export const me = resource();

const read = createRoute({
  method: "get",
  path: "/me",
  operationId: "getMe",
  summary: "Get the account and key of this request",
  tags: ["Key in use"],
  ...keyWith(null),
  responses: { 200: json(Me, "The account, the key and its limit."), ...problems(400) },
});

me.openapi(read, (c) => {
  const { key, limit, used, remaining, resetsAt } = inUse(c);
  return sendJson(
    c,
    {
      account: { id: key.accountId, name: key.accountName },
      key: { id: actorOf(c).keyId, name: key.name, scopes: key.scopes, expires_at: isoOrNull(key.expiresAt) },
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
  ...keyWith(null),
  ...notCounted,
  responses: { 200: json(RateLimits, "What is used of each limit."), ...problems(400) },
});

me.openapi(readRateLimit, (c) => {
  const { limit, used, remaining, resetsAt } = inUse(c);
  return sendJson(
    c,
    { policies: [{ name: "hour" as const, limit, used, remaining, percent: percent(used, limit), resets_at: iso(resetsAt) }] },
    200,
  );
});

function inUse(c: ApiContext) {
  const admission = callOf(c).recognized?.admission;
  if (!admission) throw new Error("an open operation has no key");
  return { key: admission.key, ...admission.rateLimit, remaining: remainingOf(admission.rateLimit) };
}
