import { createRoute, z } from "@hono/zod-openapi";
import { limitsIn, policyNames } from "../../admission/denials.ts";
import { principalOf } from "../../http/context.ts";
import { remainingOf } from "../../http/rate-limit-headers.ts";
import { exampleScopes } from "../../keys/scopes.ts";
import { iso, isoOrNull } from "../../lib/time/clock.ts";
import { percent } from "../../usage/percent.ts";
import type { ApiContext } from "../context.ts";
import { respondJson } from "../respond.ts";
import { notCounted, requireScope } from "../route-parts/access.ts";
import { get } from "../route-parts/requests.ts";
import { json } from "../route-parts/responses.ts";
import { listOf, objectOf, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const count = z.int().min(0);

const limitShape = {
  limit: count.meta({ description: "The number of requests that the key may make in a clock hour.", example: 5000 }),
  used: count.meta({ description: "The number of requests counted in this hour.", example: 3350 }),
  remaining: count.meta({ description: "The number of requests left in this hour.", example: 1650 }),
  resets_at: time.meta({ description: "The time when the next hour begins." }),
};

const Me = z
  .strictObject({
    account: objectOf("The account that the key belongs to.", {
      id: z.string().meta({ description: "The id of the account.", example: "acc_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
      name: z.string().meta({ description: "The name of the account.", example: "Northwind Robotics" }),
    }),
    key: objectOf("The key of this request.", {
      id: z.string().meta({ description: "The id of the key.", example: "key_4fPq2rT8vX0zB6dH" }),
      name: z.string().meta({ description: "The name of the key.", example: "Continuous integration" }),
      scopes: z.array(z.string()).meta({ description: "The scopes of the key.", example: [...exampleScopes] }),
      expires_at: time
        .nullable()
        .meta({ description: "The time when the key expires, or null if the key never expires.", examples: [null] }),
    }),
    rate_limit: z.strictObject(limitShape).meta({ description: "The rate limit of the key. The figures already include this request." }),
  })
  .openapi("Me", { description: "The account and the key of this request, with the rate limit of the key." });

const RateLimits = z
  .strictObject({
    policies: listOf(
      "All limits of the key, the shortest period first, and then those that all keys of the account share. Every key has a limit per hour. What is used of a shared limit is an estimate.",
      {
        name: z.enum(policyNames).meta({
          description:
            "The name of the policy, as in the `RateLimit` header: `second`, `minute`, `hour`, `day` or `month` for a limit of the key. `account-hour`, `account-day` or `account-month` for a limit that all keys of the account share.",
          example: "hour",
        }),
        limit: count.meta({ description: "The number of units that the key may use in the period.", example: 5000 }),
        used: count.meta({ description: "The number of units that are used.", example: 3350 }),
        remaining: count.meta({ description: "The number of units that are left.", example: 1650 }),
        resets_at: time.meta({ description: "The time when the whole limit is available again." }),
        percent: z.number().min(0).max(100).meta({ description: "The percentage of the limit that is used.", example: 67 }),
      },
    ),
  })
  .openapi("RateLimits", { description: "The usage of each limit of the key." });

export const routes = createRouter();

const read = createRoute({
  ...get("/me", "getMe", "Get the account and key of this request"),
  description:
    "Returns the account and the key of the request, with the scopes and the rate limit of the key. Call this operation first to check a new key.",
  tags: ["Current key"],
  ...requireScope(null),
  responses: { 200: json(Me, "The account, the key and its limit.") },
});

routes.openapi(read, (c) => {
  const { keyId, key, limit, used, remaining, resetsAt } = inUse(c);
  return respondJson(
    c,
    {
      account: { id: key.accountId, name: key.accountName },
      key: { id: keyId, name: key.name, scopes: key.scopes, expires_at: isoOrNull(key.expiresAt) },
      rate_limit: { limit, used, remaining, resets_at: iso(resetsAt) },
    },
    200,
  );
});

const readRateLimit = createRoute({
  ...get("/rate-limit", "getRateLimit", "Get the limit of this key"),
  description: "Returns what is left of each limit. This request is not counted, and works even when a limit is reached.",
  tags: ["Current key"],
  ...requireScope(null),
  ...notCounted,
  responses: { 200: json(RateLimits, "The usage of each limit.") },
});

routes.openapi(readRateLimit, (c) => {
  const policies = limitsIn(principalOf(c).admission).map(({ name, limit, used, resetsAt }) => ({
    name,
    limit,
    used,
    remaining: remainingOf({ limit, used }),
    percent: percent(used, limit),
    resets_at: iso(resetsAt),
  }));
  return respondJson(c, { policies }, 200);
});

function inUse(c: ApiContext) {
  const { keyId, admission } = principalOf(c);
  return { keyId, key: admission.key, ...admission.rateLimit, remaining: remainingOf(admission.rateLimit) };
}
